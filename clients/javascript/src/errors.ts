/**
 * The errors that a call can throw.
 *
 * ClientError
 * ├── UnreachableError         nothing answered in time, after every attempt
 * ├── UnexpectedReplyError     the reply does not follow the API's contract
 * └── RejectedError            the service answered with an error
 *     ├── AuthenticationError      401: no valid key
 *     ├── PermissionDeniedError    403: the key's role does not permit the call
 *     ├── NotFoundError            404: no such campaign, arm or decision
 *     ├── ConflictError            409: the request conflicts with what is recorded
 *     ├── InvalidRequestError      400, 413, 415, 422, 431: the request is invalid; retrying will not help
 *     └── UnavailableError         408, 429, 502, 503, 504, after every attempt
 */

/** A call to the service failed. */
export class ClientError extends Error {
  override name = "ClientError";
}

/** Nothing answered in time. The request may have been recorded: send it again with the same ids. */
export class UnreachableError extends ClientError {
  override name = "UnreachableError";
}

/** The reply does not follow the API's contract: something other than Prudent may have answered. */
export class UnexpectedReplyError extends ClientError {
  override name = "UnexpectedReplyError";
}

/** What the service says about a field of the request. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** Where an error belongs: the item of a batch, by its id, and the id under which the service logged the request. */
export interface Origin {
  readonly item?: string | undefined;
  readonly requestId?: string | undefined;
}

/** The service answered with an error. */
export class RejectedError extends ClientError {
  override name = "RejectedError";
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly FieldError[];
  readonly item: string | undefined;
  readonly requestId: string | undefined;

  /** body: problem+json, or what OFREP has instead, as an object; undefined for anything else, as a proxy's page. */
  constructor(
    readonly status: number,
    readonly body: Readonly<Record<string, unknown>> | undefined,
    origin: Origin = {},
  ) {
    const title = text(body?.["title"] ?? body?.["errorCode"]);
    const detail = text(body?.["detail"] ?? body?.["errorDetails"]);
    const errors = fieldErrors(body?.["errors"]);
    const fields = errors.slice(0, 5).map(({ field, message }) => `${field}: ${message}`);
    const unsaid = fields.filter((field) => !detail.includes(field));
    const about = origin.item === undefined ? "" : ` for ${origin.item}`;
    const says = [title, detail, unsaid.join("; ")].filter(Boolean).join(". ");
    super(`the service answered ${status}${about}${says && ": "}${says}`);
    this.title = title;
    this.detail = detail;
    this.errors = errors;
    this.item = origin.item;
    this.requestId = origin.requestId;
  }
}

/** The key is missing or not valid. */
export class AuthenticationError extends RejectedError {
  override name = "AuthenticationError";
}

/** The key's role does not permit the call. */
export class PermissionDeniedError extends RejectedError {
  override name = "PermissionDeniedError";
}

/** There is no such campaign, arm or decision. */
export class NotFoundError extends RejectedError {
  override name = "NotFoundError";
}

/** The request conflicts with what is recorded: id taken, different reward, campaign archived. */
export class ConflictError extends RejectedError {
  override name = "ConflictError";
}

/** The request is invalid; `errors` names the fields. Retrying will not help. */
export class InvalidRequestError extends RejectedError {
  override name = "InvalidRequestError";
}

/** The service was unavailable, after every attempt. It is safe to send the same request again later. */
export class UnavailableError extends RejectedError {
  override name = "UnavailableError";
}

/** Statuses that do not mean that the request is invalid: it is retried. */
export const AGAIN: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

const KINDS: Readonly<Record<number, typeof RejectedError>> = {
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  ...Object.fromEntries([400, 413, 415, 422, 431].map((status) => [status, InvalidRequestError])),
  ...Object.fromEntries([...AGAIN].map((status) => [status, UnavailableError])),
};

/** The error that belongs to a status and the body that came with it. */
export function rejection(status: number, body: unknown, origin?: Origin): RejectedError {
  return new (KINDS[status] ?? RejectedError)(status, isObject(body) ? body : undefined, origin);
}

/** Whether a value of JSON is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function fieldErrors(listed: unknown): FieldError[] {
  const rows = Array.isArray(listed) ? listed.filter(isObject) : [];
  return rows.map((row) => ({ field: text(row["field"]), message: text(row["message"]) }));
}
