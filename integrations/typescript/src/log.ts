import { MAX_ANSWER_BYTES, parseJson, readAll } from "./answer.js";
import type { EventStream } from "./event_stream.js";
import type { Operations } from "./schema.js";
import type { CallOptions, Given, Transport } from "./transport.js";

/** Which lines of the audit log; all conditions have to fit. */
export type AuditQuery = NonNullable<Operations["query_audit"]["query"]>;
export type LogQuery = NonNullable<Operations["query_log"]["query"]>;

/** A line of the audit log. Its further fields depend on the event. */
export interface AuditLine {
  readonly event: string;
  readonly time: string;
  readonly [field: string]: unknown;
}

/** Lines, newest first. */
export interface LogPage {
  readonly lines: readonly AuditLine[];
  /** The value for `cursor` that continues with older lines; none after the last one. */
  readonly cursor: string | undefined;
}

type LogOperation = "query_audit" | "query_log";

/** Read lines of the log. */
export async function readLog<Name extends LogOperation>(
  transport: Transport,
  name: Name,
  given: Given<Name>,
  options: CallOptions = {},
): Promise<LogPage> {
  const response = await transport.fetch(name, given, options);
  const text = Buffer.from(await readAll(response, MAX_ANSWER_BYTES, options.signal)).toString("utf8");
  const lines = text.split("\n").filter((line) => line !== "");
  const cursor = response.headers["egress-cursor"];
  return { lines: lines.map((line) => parseJson(line) as AuditLine), cursor: cursor?.toString() };
}

/** Follow new lines of the log. */
export function followLog<Name extends LogOperation>(
  transport: Transport,
  name: Name,
  given: Given<Name>,
  options: CallOptions = {},
): Promise<EventStream<AuditLine>> {
  return transport.follow(name, given, (event) => event.data as AuditLine, options);
}
