import { once } from "node:events";
import { PassThrough } from "node:stream";

import { parseJson, problemError } from "./answer.js";
import { connectionError, EgressError } from "./errors.js";
import type { Problem, ResizeMessage } from "./schema.js";
import type { WebSocketConnection } from "./websocket.js";

const INPUT_CHANNEL = 0;
const OUTPUT_CHANNELS = [undefined, "stdout", "stderr"] as const;
const MAX_PIECE_BYTES = 64 * 1024;
/** Events that wait for a reader. With more, the server waits. */
const MAX_WAITING = 16;

/** Bytes of an output. */
export interface OutputBytes {
  readonly kind: "stdout" | "stderr";
  readonly data: Uint8Array;
}

/** A text message of the server. */
export interface TextMessage {
  readonly type: string;
}

/** What a text message means: an event, and whether it begins or ends the stream. */
export interface MessageMeaning<Event> {
  readonly event?: Event;
  readonly isBegin?: boolean;
  readonly isEnd?: boolean;
}

/** Input and output over one WebSocket: bytes in both directions, and messages about them. */
export abstract class MessageStream<Event> implements AsyncIterable<Event | OutputBytes> {
  readonly #connection: WebSocketConnection;
  readonly #signal: AbortSignal | undefined;
  readonly #events = new PassThrough({ objectMode: true, highWaterMark: MAX_WAITING });
  /** Callers that wait until their input is taken, in their order. */
  readonly #taken: (() => void)[] = [];
  #writing: Promise<void> = Promise.resolve();
  #isOver = false;

  protected constructor(connection: WebSocketConnection, signal: AbortSignal | undefined) {
    this.#connection = connection;
    this.#signal = signal;
    // A reader is told of it by its read.
    this.#events.on("error", () => undefined);
  }

  /** What a message means, besides those that every stream has. */
  protected abstract meaning(message: TextMessage): MessageMeaning<Event>;

  /** Read messages from now on, and return once one of them has begun the stream. */
  protected begin(): Promise<void> {
    return new Promise<void>((resolve, reject) => void this.#follow(resolve, reject));
  }

  /** Send input, and wait until it is taken. After the end nothing takes it. */
  write(data: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(data);
    return this.inTurn(async () => {
      for (let begin = 0; begin < bytes.length && !this.#isOver; begin += MAX_PIECE_BYTES) {
        const piece = bytes.subarray(begin, begin + MAX_PIECE_BYTES);
        const taken = new Promise<void>((resolve) => this.#taken.push(resolve));
        await this.#send(Buffer.concat([Buffer.of(INPUT_CHANNEL), piece]));
        await taken;
      }
    });
  }

  /** Tell a terminal its new size. */
  resize(columns: number, rows: number): Promise<void> {
    const message: ResizeMessage = { type: "resize", columns, rows };
    return this.say(message);
  }

  /** Close the connection. */
  close(): void {
    this.#connection.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event | OutputBytes, void, undefined> {
    try {
      yield* this.#events;
    } finally {
      this.close();
    }
  }

  protected say(message: TextMessage): Promise<void> {
    return this.#send(JSON.stringify(message));
  }

  /** Do something after all input that was written before: pieces are answered, and the answers have no names. */
  protected inTurn(work: () => Promise<void>): Promise<void> {
    this.#writing = this.#writing.then(work);
    return this.#writing;
  }

  /** Read messages to the end, and pass them on. */
  async #follow(onBegin: () => void, onFailure: (error: unknown) => void): Promise<void> {
    try {
      for await (const message of this.#connection.messages()) {
        const { event, isBegin, isEnd } = typeof message === "string" ? this.#read(message) : readOutput<Event>(message);
        // The reader has left.
        if (this.#events.destroyed) return;
        if (event !== undefined && !this.#events.write(event)) {
          await Promise.race([once(this.#events, "drain"), once(this.#events, "close")]);
        }
        if (isBegin === true) onBegin();
        if (isEnd === true) {
          this.#events.end();
          return;
        }
      }
      throw connectionError(new Error("the server closed the connection"), this.#signal);
    } catch (error) {
      onFailure(error);
      this.#events.destroy(error as Error);
    } finally {
      this.#isOver = true;
      this.close();
      for (const each of this.#taken.splice(0)) each();
    }
  }

  #read(text: string): MessageMeaning<Event> {
    const message = parseJson(text) as TextMessage & { problem: Problem };
    if (message.type === "problem") throw problemError(message.problem);
    if (message.type !== "taken") return this.meaning(message);
    this.#taken.shift()?.();
    return {};
  }

  async #send(data: string | Uint8Array): Promise<void> {
    try {
      await this.#connection.send(data);
    } catch (error) {
      if (!this.#isOver) throw error;
    }
  }
}

function readOutput<Event>(message: Buffer): MessageMeaning<Event | OutputBytes> {
  const kind = OUTPUT_CHANNELS[message[0] ?? INPUT_CHANNEL];
  if (kind === undefined) throw new EgressError("client.protocol", "an output has no channel");
  return { event: { kind, data: message.subarray(1) } };
}
