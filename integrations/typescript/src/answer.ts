import type { IncomingMessage } from "node:http";

import { connectionError, EgressError } from "./errors.js";
import type { Problem } from "./schema.js";

export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const MAX_PROBLEM_BYTES = 64 * 1024;

/** Read an answer to its end, if it has no more than so many bytes. */
export async function readAll(
  response: AsyncIterable<Uint8Array> & { destroy(): unknown },
  maxBytes: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const piece of response) {
      size += piece.length;
      if (size > maxBytes) {
        throw new EgressError("client.too_large", `the answer has more than ${maxBytes} bytes`, "read it as a stream");
      }
      pieces.push(piece);
    }
  } catch (error) {
    response.destroy();
    throw error instanceof EgressError ? error : connectionError(error, signal);
  }
  return Buffer.concat(pieces);
}

/** The error of an answer that is no success. */
export async function readProblem(response: IncomingMessage, signal: AbortSignal | undefined): Promise<EgressError> {
  const status = response.statusCode ?? 0;
  try {
    const problem = parseJson(await readAll(response, MAX_PROBLEM_BYTES, signal));
    if (isProblem(problem)) return problemError(problem, status);
  } catch (error) {
    if (!(error instanceof EgressError && error.type !== "client.connection")) throw error;
  }
  return new EgressError("client.protocol", `the server answered ${status}`, "", status);
}

/** The error of a problem. */
export function problemError(problem: Problem, status = 0): EgressError {
  return new EgressError(problem.type, problem.message, problem.hint, status);
}

function isProblem(value: unknown): value is Problem {
  const { type, message, hint } = (value ?? {}) as Record<string, unknown>;
  return typeof type === "string" && typeof message === "string" && (hint ?? "") === String(hint ?? "");
}

/** Parse JSON of the server. */
export function parseJson(data: Uint8Array | string): unknown {
  try {
    return JSON.parse(typeof data === "string" ? data : Buffer.from(data).toString("utf8"));
  } catch {
    throw new EgressError("client.protocol", "the answer is not JSON", "is this the API of egress?");
  }
}
