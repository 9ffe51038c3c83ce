import { sendBatch } from "./batches.js";
import type { Deadline } from "./deadline.js";
import { encode } from "./encoding.js";
import { ClientError, rejection, type RejectedError, UnexpectedReplyError } from "./errors.js";
import { newId } from "./identifiers.js";
import type {
  Decision,
  DefaultArm,
  EventReceipt,
  EventRequest,
  Fallback,
  Receipt,
  Report,
  RewardRequest,
  SelectRequest,
  StoredDecision,
} from "./models.js";
import { type CallOptions, type ClientOptions, Transport } from "./transport.js";

/** For calls that carry much or compute much: the service itself gives up after 15 s. */
const LONG_DEADLINE_MS = 20_000;

/** What a select may do differently. default: an arm to return in place of an error, by its id or with its value. */
export interface SelectOptions extends CallOptions {
  readonly default?: string | DefaultArm | undefined;
}

/** How a decision is found. campaignId: needed only where several campaigns have used its id. */
export interface DecisionOptions extends CallOptions {
  readonly campaignId?: string | undefined;
}

/**
 * Talks to one service.
 *
 * baseUrl: such as http://127.0.0.1:8000. Every call ends within its deadline, and throws one of the errors of
 * errors.ts. Every call can be repeated safely: decisions and events have ids from the start, and rewards are
 * idempotent. Batches and reports have 20 s where other calls have 2.
 */
export class PrudentClient {
  readonly #transport: Transport;

  /** Throws TypeError for an invalid URL or key, RangeError for a deadline or attempts out of range. */
  constructor(baseUrl: string, options: ClientOptions = {}) {
    this.#transport = new Transport(baseUrl, options);
  }

  /**
   * Make a decision. Keep its decision_id, or the subject, for the reward.
   *
   * With a default, that arm is returned in place of an error, within the deadline: `error` says why, and
   * `decision_id` is null, because what is rewarded must have been decided.
   */
  select(
    request: SelectRequest,
    options: SelectOptions & { readonly default: string | DefaultArm },
  ): Promise<Decision | Fallback>;
  select(request: SelectRequest, options?: CallOptions): Promise<Decision>;
  async select(request: SelectRequest, options: SelectOptions = {}): Promise<Decision | Fallback> {
    try {
      return await this.#send(
        { method: "POST", path: "/select", body: withDecisionId(request), field: "arm_id" },
        options,
      );
    } catch (error) {
      if (options.default === undefined || !(error instanceof ClientError)) throw error;
      return fallback(request, options.default, error);
    }
  }

  /** Make many decisions. A failed item has its error in its place in the result; it is not thrown. */
  async selectBatch(
    requests: readonly SelectRequest[],
    options: CallOptions = {},
  ): Promise<(Decision | RejectedError)[]> {
    return this.#sendBatch("/select/batch", requests.map(withDecisionId), ownId, options);
  }

  /** Report the outcome of a decision, or of the latest one for a subject. */
  async reward(request: RewardRequest, options: CallOptions = {}): Promise<Receipt> {
    return this.#send({ method: "POST", path: "/reward", body: request, field: "sequence" }, options);
  }

  /** Report many outcomes. A failed item has its error in its place in the result; it is not thrown. */
  async rewardBatch(
    requests: readonly RewardRequest[],
    options: CallOptions = {},
  ): Promise<(Receipt | RejectedError)[]> {
    return this.#sendBatch("/reward/batch", requests, ownId, options);
  }

  /** Report an event: a reward in every campaign that names it, of the latest decision for its subject. */
  async sendEvent(event: EventRequest, options: CallOptions = {}): Promise<EventReceipt> {
    return this.#send({ method: "POST", path: "/events", body: withEventId(event), field: "rewarded" }, options);
  }

  /** Report many events. A failed item has its error in its place in the result; it is not thrown. */
  async sendEvents(
    events: readonly EventRequest[],
    options: CallOptions = {},
  ): Promise<(EventReceipt | RejectedError)[]> {
    return this.#sendBatch("/events/batch", events.map(withEventId), ({ event_id }) => event_id, options);
  }

  /** Say that a decision with deferred activation has been shown. Doing so again changes nothing. */
  async activate(decisionId: string, options: DecisionOptions = {}): Promise<void> {
    await this.#send({ method: "POST", path: decisionPath(decisionId, "/activate", options) }, options);
  }

  /** Read a decision as it was answered, and whether it has been rewarded. */
  async decision(decisionId: string, options: DecisionOptions = {}): Promise<StoredDecision> {
    return this.#send({ method: "GET", path: decisionPath(decisionId, "", options), field: "rewarded" }, options);
  }

  /** Read what happened in a campaign, and what it has learned. */
  async report(campaignId: string, options: CallOptions = {}): Promise<Report> {
    const path = `/campaigns/${encodeURIComponent(campaignId)}/report`;
    return this.#send({ method: "GET", path, field: "arms", deadlineMs: LONG_DEADLINE_MS }, options);
  }

  /** Make a call that has no method of its own, with the same retries: JSON in, a JSON object out. */
  async request<T extends object = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<T> {
    return this.#send({ method, path, body }, options);
  }

  #send<T>(call: Call, options: CallOptions): Promise<T> {
    const { method, path, field } = call;
    const body = call.body === undefined ? undefined : encode(call.body);
    const work = async (deadline: Deadline, attempts: number): Promise<T> => {
      const reply = await this.#transport.send(method, path, body, deadline, attempts);
      if (field === undefined || field in reply) return reply as T;
      throw new UnexpectedReplyError(`the reply to ${path} has no ${field}`);
    };
    return this.#transport.within(options, call.deadlineMs, work);
  }

  #sendBatch<Item extends object, T>(
    path: string,
    items: readonly Item[],
    id: (item: Item) => string,
    options: CallOptions,
  ): Promise<(T | RejectedError)[]> {
    return this.#transport.within(options, LONG_DEADLINE_MS, async (deadline, attempts) => {
      const answers = await sendBatch(this.#transport, path, items, deadline, attempts);
      return answers.map((answer, place) =>
        answer.status < 400 ? (answer as T) : rejection(answer.status, answer, { item: id(items[place]!) }),
      );
    });
  }
}

/** field: what every answer has; deadlineMs: the least that the call has unless its options say otherwise. */
interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly field?: string;
  readonly deadlineMs?: number;
}

function decisionPath(decisionId: string, rest: string, { campaignId }: DecisionOptions): string {
  const query = campaignId === undefined ? "" : `?campaign_id=${encodeURIComponent(campaignId)}`;
  return `/decisions/${encodeURIComponent(decisionId)}${rest}${query}`;
}

function withDecisionId(request: SelectRequest): SelectRequest {
  return (request.decision_id ?? request.subject) == null ? { ...request, decision_id: newId() } : request;
}

function withEventId(event: EventRequest): EventRequest & { event_id: string } {
  return { ...event, event_id: event.event_id ?? newId() };
}

function ownId(request: SelectRequest | RewardRequest): string {
  return request.decision_id ?? request.subject ?? "";
}

function fallback(request: SelectRequest, arm: string | DefaultArm, error: ClientError): Fallback {
  const { arm_id, value = arm_id } = typeof arm === "string" ? { arm_id: arm } : arm;
  return { campaign_id: request.campaign_id, decision_id: null, arm_id, value, reason: "default", error };
}
