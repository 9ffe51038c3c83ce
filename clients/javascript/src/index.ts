export { type DecisionOptions, PrudentClient, type SelectOptions } from "./client.js";
export {
  AuthenticationError,
  ClientError,
  ConflictError,
  type FieldError,
  InvalidRequestError,
  NotFoundError,
  PermissionDeniedError,
  RejectedError,
  UnavailableError,
  UnexpectedReplyError,
  UnreachableError,
} from "./errors.js";
export { newId } from "./identifiers.js";
export type {
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
export type { CallOptions, ClientOptions } from "./transport.js";
