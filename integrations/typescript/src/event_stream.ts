import type { IncomingMessage } from "node:http";

import { parseJson, problemError } from "./answer.js";
import { connectionError, EgressError } from "./errors.js";
import type { Problem } from "./schema.js";

/** One server-sent event, with its data as JSON says it. */
export interface ServerEvent {
  readonly name: string;
  readonly data: any;
}

/** The longest line of an event: a piece in which each byte may be escaped. */
export const MAX_LINE_BYTES = 512 * 1024;
const LINE_END = 10;

/**
 * Events as they come, until the server or the client closes the connection.
 *
 * Leaving a `for await` loop closes it, and so does `close`. A stream that nobody reads slows its server.
 */
export class EventStream<Event> implements AsyncIterable<Event> {
  readonly #response: IncomingMessage;
  readonly #read: (event: ServerEvent) => Event;
  readonly #signal: AbortSignal | undefined;
  readonly #isLast: ((event: Event) => boolean) | undefined;

  constructor(
    response: IncomingMessage,
    read: (event: ServerEvent) => Event,
    options: { readonly signal?: AbortSignal | undefined; readonly last?: (event: Event) => boolean } = {},
  ) {
    this.#response = response;
    this.#read = read;
    this.#signal = options.signal;
    this.#isLast = options.last;
    // Without this an abort between two reads would be an error that nobody handles. A reader is told by its read.
    response.on("error", () => undefined);
  }

  /** Close the connection. A command of `stream` ends with it. */
  close(): void {
    this.#response.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    try {
      for await (const event of parseEvents(this.#response)) {
        if (event.name === "problem") throw problemError(event.data as Problem);
        const found = this.#read(event);
        yield found;
        if (this.#isLast?.(found)) return;
      }
    } catch (error) {
      throw error instanceof EgressError ? error : connectionError(error, this.#signal);
    } finally {
      this.close();
    }
    // A stream with a last event that ended without it was cut.
    if (this.#isLast !== undefined) throw connectionError(new Error("the stream ended early"), this.#signal);
  }
}

/** Read server-sent events. Comments are passed over; they keep the connection alive. */
export async function* parseEvents(source: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  let name = "message";
  let data: string[] = [];
  for await (const line of splitLines(source)) {
    const { field, value } = splitField(line);
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
    else if (line === "") {
      if (data.length > 0) yield { name, data: parseJson(data.join("\n")) };
      name = "message";
      data = [];
    }
  }
}

function splitField(line: string): { field: string; value: string } {
  const colon = line.indexOf(":");
  if (colon < 0) return { field: line, value: "" };
  return { field: line.slice(0, colon), value: line.slice(colon + 1).replace(/^ /, "") };
}

async function* splitLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let kept: Uint8Array[] = [];
  let size = 0;
  for await (const piece of source) {
    let begin = 0;
    for (let end = piece.indexOf(LINE_END); end >= 0; end = piece.indexOf(LINE_END, begin)) {
      // Whole lines are decoded: a character is never cut by the end of a piece.
      const line = Buffer.concat([...kept, piece.subarray(begin, end)]).toString("utf8");
      [kept, size, begin] = [[], 0, end + 1];
      yield line.replace(/\r$/, "");
    }
    kept.push(piece.subarray(begin));
    size += piece.length - begin;
    if (size > MAX_LINE_BYTES) {
      throw new EgressError("client.protocol", `an event has more than ${MAX_LINE_BYTES} bytes`);
    }
  }
}
