/** What is sent and received, under the names of this client. The fields are those of the API. */

import type { ClientError } from "./errors.js";
import type { components } from "./schema.js";

type Schemas = components["schemas"];

/** A decision to make. decision_id: generated if it and subject are absent, so that the request can be retried safely. */
export type SelectRequest = Schemas["SelectRequest"];
/** The outcome of a decision; larger is better. Needs a decision_id, or campaign_id and subject. */
export type RewardRequest = Schemas["RewardRequest"];
/** Something that a subject did. event_id: generated if absent, so that the request can be retried safely. */
export type EventRequest = Omit<Schemas["EventRequest"], "event_id"> & { event_id?: string };

/** A decision, recorded before the reply. */
export type Decision = Schemas["SelectReply"];
/** A decision as it was answered, and what became of it. */
export type StoredDecision = Schemas["StoredDecisionReply"];
/** A reward, recorded and learned before the reply. */
export type Receipt = Schemas["RewardReply"];
/** The rewards that an event was, and the campaigns that refused it: none where no decision of its subject waits. */
export type EventReceipt = Schemas["EventReply"];
/** What happened in a campaign, and what it has learned. */
export type Report = Schemas["ReportReply"];

/** An arm to use where the service gives none. value: as decisions have it; the arm's id if absent. */
export interface DefaultArm {
  readonly arm_id: string;
  readonly value?: unknown;
}

/** The call's default in place of a decision. There is no decision to reward, so its id is null. */
export interface Fallback {
  readonly campaign_id: string;
  readonly decision_id: null;
  readonly arm_id: string;
  readonly value: unknown;
  readonly reason: "default";
  readonly error: ClientError;
}
