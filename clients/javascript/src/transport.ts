import { Deadline } from "./deadline.js";
import { AGAIN, isObject, rejection, RejectedError, UnexpectedReplyError, UnreachableError } from "./errors.js";
import { pauseMs } from "./retries.js";

/** How a client reaches its service. */
export interface ClientOptions {
  /** Sent as X-API-Key. Whoever can open a page can read its key. */
  readonly apiKey?: string | undefined;
  /** For each call that a user waits for, with all its attempts and pauses; 2,000 by default. */
  readonly deadlineMs?: number | undefined;
  /** How often a call is attempted in total within its deadline; 7 by default, 1 for no retries. */
  readonly attempts?: number | undefined;
  /** Sent with every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** In place of the global fetch. */
  readonly fetch?: typeof fetch | undefined;
}

/** What one call may do differently. */
export interface CallOptions {
  readonly deadlineMs?: number | undefined;
  readonly attempts?: number | undefined;
  /** Gives the call up: it then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Sends requests to one service, again while it is safe and there is time. */
export class Transport {
  readonly #baseUrl: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;
  readonly #deadlineMs: number;
  readonly #attempts: number;

  /** Throws TypeError for an invalid URL or key, RangeError for numbers out of range. */
  constructor(baseUrl: string, options: ClientOptions) {
    // A page may name its own origin: "/".
    const { protocol, origin, pathname, href } = new URL(baseUrl, globalThis.location?.href);
    if (!/^https?:$/.test(protocol) || href !== origin + pathname) {
      throw new TypeError("the base URL must be of http:// or https://, without credentials, query and fragment");
    }
    if (options.apiKey !== undefined && !/^[!-~]+$/.test(options.apiKey)) {
      throw new TypeError("the API key must be printable ASCII without spaces");
    }
    this.#baseUrl = href.replace(/\/+$/, "");
    const key = options.apiKey === undefined ? {} : { "X-API-Key": options.apiKey };
    this.#headers = { Accept: "application/json", ...options.headers, ...key };
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
    this.#deadlineMs = inRange("deadlineMs", options.deadlineMs ?? 2_000);
    this.#attempts = inRange("attempts", options.attempts ?? 7);
  }

  /** Do a call's work within its deadline. leastMs: what the call has unless its options say otherwise. */
  async within<T>(
    options: CallOptions,
    leastMs: number | undefined,
    work: (deadline: Deadline, attempts: number) => Promise<T>,
  ): Promise<T> {
    const milliseconds = options.deadlineMs ?? Math.max(leastMs ?? 0, this.#deadlineMs);
    const attempts = inRange("attempts", options.attempts ?? this.#attempts);
    const deadline = new Deadline(inRange("deadlineMs", milliseconds), options.signal);
    try {
      return await work(deadline, attempts);
    } finally {
      deadline.close();
    }
  }

  /**
   * The object that a request is answered with; an empty one for 204.
   *
   * body: JSON, already encoded. The request is sent again while nothing answers or the status allows it, but never
   * after a pause that would end too late.
   */
  async send(
    method: string,
    path: string,
    body: string | undefined,
    deadline: Deadline,
    attempts: number,
  ): Promise<Record<string, unknown>> {
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#attempt(method, path, body, deadline);
      if (!(answer instanceof Failure)) return answer;
      const pause = pauseMs(attempt, answer.retryAfter);
      if (attempt >= attempts || pause >= deadline.leftMs) throw answer.error;
      await deadline.pause(pause);
      deadline.throwIfGivenUp();
    }
  }

  /** One request. Failures that may pass are returned, all others thrown. */
  async #attempt(
    method: string,
    path: string,
    body: string | undefined,
    deadline: Deadline,
  ): Promise<Record<string, unknown> | Failure> {
    const headers = body === undefined ? this.#headers : { ...this.#headers, "Content-Type": "application/json" };
    let response: Response;
    let text: string;
    try {
      // A redirect followed would take the key to another address.
      const options: RequestInit = { method, headers, redirect: "manual", signal: deadline.signal };
      response = await this.#fetch(this.#baseUrl + path, body === undefined ? options : { ...options, body });
      text = await response.text();
    } catch (cause) {
      deadline.throwIfGivenUp();
      const reason = deadline.isOver ? `within ${deadline.milliseconds} ms` : reasonOf(cause);
      return new Failure(new UnreachableError(`no answer from ${this.#baseUrl}: ${reason}`, { cause }));
    }
    const content = response.status === 204 ? {} : parsed(text);
    if (response.ok) {
      if (content === undefined) throw new UnexpectedReplyError(`${path} was not answered with a JSON object`);
      return content;
    }
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      throw new UnexpectedReplyError(`${path} redirects to another address`);
    }
    const error = rejection(response.status, content, { requestId: response.headers.get("x-request-id") ?? undefined });
    if (!AGAIN.has(response.status)) throw error;
    return new Failure(error, response.headers.get("retry-after"));
  }
}

/** An attempt that failed in a way that may pass. */
class Failure {
  constructor(
    readonly error: UnreachableError | RejectedError,
    readonly retryAfter: string | null = null,
  ) {}
}

/** Timers take no more: a longer one would fire at once. */
const NUMBER_MAX = 2 ** 31 - 1;

function inRange(name: string, value: number): number {
  if (value >= 1 && value <= NUMBER_MAX) return value;
  throw new RangeError(`${name} must be a number between 1 and ${NUMBER_MAX}, not ${value}`);
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const content: unknown = JSON.parse(text);
    return isObject(content) ? content : undefined;
  } catch {
    return undefined;
  }
}

/** What fetch says: the reason is in the cause of its error. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message ? error.cause.message : error.message;
}
