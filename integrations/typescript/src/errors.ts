import type { ProblemType } from "./schema.js";

/** The types of errors that the client itself finds. */
export type ClientErrorType =
  /** The connection could not be made, or ended. */
  | "client.connection"
  /** The answer does not have the form of the API. */
  | "client.protocol"
  /** The answer is longer than the caller accepts. */
  | "client.too_large"
  /** The settings of the client are wrong. */
  | "client.settings";

export type EgressErrorType = ProblemType | ClientErrorType;

/** Any failure of a call. Decide by `type`; the texts are for people. It never holds the token. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly type: EgressErrorType;
  /** What to do about it; may be empty. */
  readonly hint: string;
  /** The status of the answer; 0 if there was none. */
  readonly status: number;

  constructor(type: EgressErrorType, message: string, hint = "", status = 0, options?: ErrorOptions) {
    super(message, options);
    this.type = type;
    this.hint = hint;
    this.status = status;
  }
}

/** Whether an error is one of these types; of any type if none is named. */
export function isEgressError(error: unknown, ...types: readonly EgressErrorType[]): error is EgressError {
  return error instanceof EgressError && (types.length === 0 || types.includes(error.type));
}

/** The error for a connection that ended; the reason of the caller if the caller ended it. */
export function connectionError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  const place = address === undefined ? "the server" : port === undefined ? address : `${address}:${port}`;
  return new EgressError(
    "client.connection",
    `the connection to ${place} failed${code ? ` (${code})` : ""}`,
    "is `egress up` running?",
    0,
    { cause: error },
  );
}
