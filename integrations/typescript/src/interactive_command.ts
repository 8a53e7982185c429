import { once } from "node:events";
import { PassThrough } from "node:stream";

import { parseJson, problemError } from "./answer.js";
import { connectionError, EgressError } from "./errors.js";
import type {
  CloseInputMessage,
  KillMessage,
  ProblemMessage,
  ResizeMessage,
  ResultMessage,
  StartedMessage,
  StartMessage,
  TakenMessage,
} from "./schema.js";
import type { CallOptions } from "./transport.js";
import type { WebSocketConnection } from "./websocket.js";

type ServerMessage = StartedMessage | TakenMessage | ResultMessage | ProblemMessage;
type ClientMessage = StartMessage | CloseInputMessage | KillMessage | ResizeMessage;

export type InteractiveOptions = Omit<StartMessage, "type" | "argv"> & CallOptions;

/** An event of an interactive command: bytes of its output, or its end. */
export type InteractiveEvent =
  | { readonly kind: "stdout" | "stderr"; readonly data: Uint8Array }
  | { readonly kind: "exit"; readonly exit_code: number; readonly duration: number; readonly timed_out: boolean };

const CHANNELS = ["stdin", "stdout", "stderr"] as const;
const MAX_PIECE_BYTES = 64 * 1024;
/** Pieces of output that wait for a reader. With more, the command waits. */
const MAX_WAITING = 16;

/** A command whose input and output go over one connection, in both directions. It ends with the connection. */
export class InteractiveCommand implements AsyncIterable<InteractiveEvent> {
  readonly #connection: WebSocketConnection;
  readonly #signal: AbortSignal | undefined;
  readonly #events = new PassThrough({ objectMode: true, highWaterMark: MAX_WAITING });
  /** Callers that wait until their input is taken, in their order. */
  readonly #taken: (() => void)[] = [];
  #writing: Promise<void> = Promise.resolve();
  #isOver = false;

  private constructor(connection: WebSocketConnection, signal: AbortSignal | undefined) {
    this.#connection = connection;
    this.#signal = signal;
    // A reader is told of it by its read.
    this.#events.on("error", () => undefined);
  }

  /** Start a command. Throws its problem if it does not start. */
  static async start(
    connection: WebSocketConnection,
    argv: readonly string[],
    options: InteractiveOptions,
  ): Promise<InteractiveCommand> {
    const { signal, ...settings } = options;
    const command = new InteractiveCommand(connection, signal);
    await command.#say({ type: "start", argv, stdin: true, ...settings });
    await new Promise<void>((resolve, reject) => {
      void command.#follow(resolve, reject);
    });
    return command;
  }

  /** Send input, and wait until the command has it. A command that has ended takes no more. */
  write(data: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(data);
    // One after the other: each piece is answered, and the answers have no names.
    this.#writing = this.#writing.then(async () => {
      for (let begin = 0; begin < bytes.length && !this.#isOver; begin += MAX_PIECE_BYTES) {
        const piece = bytes.subarray(begin, begin + MAX_PIECE_BYTES);
        const taken = new Promise<void>((resolve) => this.#taken.push(resolve));
        await this.#send(Buffer.concat([Buffer.of(CHANNELS.indexOf("stdin")), piece]));
        await taken;
      }
    });
    return this.#writing;
  }

  /** Say that the input is complete. */
  closeInput(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#say({ type: "close_input" }));
    return this.#writing;
  }

  /** Tell a command with a terminal its new size. */
  resize(columns: number, rows: number): Promise<void> {
    return this.#say({ type: "resize", columns, rows });
  }

  /** End the process group: SIGTERM, and SIGKILL after `grace` seconds. */
  kill(grace?: number): Promise<void> {
    return this.#say({ type: "kill", grace });
  }

  /** Close the connection. A command that is not detached ends. */
  close(): void {
    this.#connection.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<InteractiveEvent, void, undefined> {
    try {
      yield* this.#events;
    } finally {
      this.close();
    }
  }

  /** Read messages to the end, and pass them on. */
  async #follow(onStart: () => void, onFailure: (error: unknown) => void): Promise<void> {
    try {
      for await (const message of this.#connection.messages()) {
        const event = typeof message === "string" ? this.#readText(message, onStart) : readOutput(message);
        // The reader has left.
        if (this.#events.destroyed) return;
        if (event !== undefined && !this.#events.write(event)) {
          await Promise.race([once(this.#events, "drain"), once(this.#events, "close")]);
        }
        if (event?.kind === "exit") {
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

  #readText(message: string, onStart: () => void): InteractiveEvent | undefined {
    const value = parseJson(message) as ServerMessage;
    switch (value.type) {
      case "started":
        onStart();
        return undefined;
      case "taken":
        this.#taken.shift()?.();
        return undefined;
      case "problem":
        throw problemError(value.problem);
      case "result": {
        const { type: _, ...result } = value;
        return { kind: "exit", ...result };
      }
      default:
        // A later version may say more.
        return undefined;
    }
  }

  #say(message: ClientMessage): Promise<void> {
    return this.#send(JSON.stringify(message));
  }

  async #send(data: string | Uint8Array): Promise<void> {
    try {
      await this.#connection.send(data);
    } catch (error) {
      if (!this.#isOver) throw error;
    }
  }
}

function readOutput(message: Buffer): InteractiveEvent {
  const kind = CHANNELS[message[0] ?? 0];
  if (kind !== "stdout" && kind !== "stderr") throw new EgressError("client.protocol", "an output has no channel");
  return { kind, data: message.subarray(1) };
}
