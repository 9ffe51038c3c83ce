import type {
  ErrorCode,
  EvaluationContext,
  FlagMetadata,
  FlagValue,
  JsonValue,
  Provider,
  ResolutionDetails,
  TrackingEventDetails,
} from "@openfeature/server-sdk";
import type { PrudentClient } from "./client.js";
import { isObject, RejectedError } from "./errors.js";

const EVENT_DEADLINE_MS = 20_000;

/** onTrackError: told of events that could not be recorded; by default it warns on the console. */
export interface ProviderOptions {
  readonly onTrackError?: ((error: unknown) => void) | undefined;
}

/**
 * Campaigns as flags of OpenFeature: a flag's key is a campaign's id, its variants are arms, its values theirs.
 *
 * The targetingKey is the subject. An evaluation ends within the client's deadline, with the default value if need be.
 * `track` reports an event of the targetingKey: a reward in every campaign that names it.
 */
export class PrudentProvider implements Provider {
  readonly metadata = { name: "prudent" } as const;
  readonly runsOn = "server";
  readonly #client: PrudentClient;
  readonly #onTrackError: (error: unknown) => void;
  readonly #sending = new Set<Promise<void>>();

  constructor(client: PrudentClient, options: ProviderOptions = {}) {
    this.#client = client;
    this.#onTrackError = options.onTrackError ?? ((error) => console.warn("an event was not recorded:", error));
  }

  resolveBooleanEvaluation(
    flagKey: string,
    defaultValue: boolean,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<boolean>> {
    return this.#evaluate(flagKey, defaultValue, context);
  }

  resolveStringEvaluation(
    flagKey: string,
    defaultValue: string,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<string>> {
    return this.#evaluate(flagKey, defaultValue, context);
  }

  resolveNumberEvaluation(
    flagKey: string,
    defaultValue: number,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<number>> {
    return this.#evaluate(flagKey, defaultValue, context);
  }

  resolveObjectEvaluation<T extends JsonValue>(
    flagKey: string,
    defaultValue: T,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<T>> {
    return this.#evaluate(flagKey, defaultValue, context);
  }

  /** Report an event, in the background: nothing is thrown. Of the details only the value is sent. */
  track(event: string, context: EvaluationContext, details: TrackingEventDetails = {}): void {
    const sending = this.#send(event, context.targetingKey, details.value)
      .catch(this.#onTrackError)
      .finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }

  /** Wait for the events that are still being sent. */
  async onClose(): Promise<void> {
    await Promise.allSettled(this.#sending);
  }

  async #evaluate<T extends FlagValue>(
    flagKey: string,
    defaultValue: T,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<T>> {
    const path = `/ofrep/v1/evaluate/flags/${encodeURIComponent(flagKey)}`;
    // Without a targetingKey each evaluation is a decision of its own: a second attempt would make another.
    const options = context.targetingKey ? {} : { attempts: 1 };
    let reply: Evaluation;
    try {
      reply = await this.#client.request<Evaluation>("POST", path, { context }, options);
    } catch (error) {
      return { value: defaultValue, reason: "ERROR", ...describe(error) };
    }
    const { value, variant, reason = "UNKNOWN" } = reply;
    if (typeof value !== typeof defaultValue) {
      const errorMessage = `the value of ${flagKey} is of type ${typeof value}, not ${typeof defaultValue}`;
      return { value: defaultValue, reason: "ERROR", errorCode: "TYPE_MISMATCH" as ErrorCode, errorMessage };
    }
    const flagMetadata = primitives(reply.metadata);
    return { value: value as T, reason, flagMetadata, ...(variant !== undefined && { variant }) };
  }

  async #send(event: string, subject: string | undefined, value: number | undefined): Promise<void> {
    if (subject === undefined) throw new TypeError(`${event}: the context has no targetingKey`);
    await this.#client.sendEvent({ event, subject, value: value ?? null }, { deadlineMs: EVENT_DEADLINE_MS });
  }
}

/** A success of OFREP. */
interface Evaluation {
  readonly value: FlagValue;
  readonly variant?: string;
  readonly reason?: string;
  readonly metadata?: unknown;
}

/** What the service says in OFREP's form, or else what went wrong. */
function describe(error: unknown): { errorCode: ErrorCode; errorMessage: string } {
  const { errorCode = "GENERAL" } = error instanceof RejectedError ? (error.body ?? {}) : {};
  return { errorCode: errorCode as ErrorCode, errorMessage: error instanceof Error ? error.message : String(error) };
}

/** The metadata that OpenFeature can carry. */
function primitives(metadata: unknown): FlagMetadata {
  const entries = isObject(metadata) ? Object.entries(metadata) : [];
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string | number | boolean] =>
      ["string", "number", "boolean"].includes(typeof entry[1]),
    ),
  );
}
