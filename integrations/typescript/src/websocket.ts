import { createHash, randomBytes } from "node:crypto";
import type { ClientRequest } from "node:http";
import type { Duplex } from "node:stream";

import { readProblem } from "./answer.js";
import { connectionError, EgressError } from "./errors.js";
import { encodeFrame, OPCODE, readMessages } from "./frames.js";

const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** A key for a handshake: random, and so without any meaning for caches on the way. */
export function handshakeHeaders(): Record<string, string> {
  return {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": randomBytes(16).toString("base64"),
  };
}

/** A WebSocket: Node 20 has none of its own, and that of later versions reaches no unix socket. */
export class WebSocketConnection {
  readonly #socket: Duplex;
  readonly #signal: AbortSignal | undefined;

  constructor(socket: Duplex, signal: AbortSignal | undefined) {
    this.#socket = socket;
    this.#signal = signal;
    const leave = (): void => void socket.destroy();
    // An error is told to the one who reads or sends.
    socket.on("error", () => undefined);
    signal?.addEventListener("abort", leave, { once: true });
    socket.on("close", () => signal?.removeEventListener("abort", leave));
  }

  /** Shake hands. Throws the problem of a server that refuses. */
  static open(request: ClientRequest, signal: AbortSignal | undefined): Promise<WebSocketConnection> {
    return new Promise((resolve, reject) => {
      request.on("error", (error) => reject(connectionError(error, signal)));
      request.on("response", (response) => {
        // The server closes the connection of a handshake that it refused: the next request must not get it.
        const { socket } = response;
        readProblem(response, signal).then(reject, reject).finally(() => socket.destroy());
      });
      request.on("upgrade", (response, socket, head) => {
        const key = String(request.getHeader("sec-websocket-key"));
        const expected = createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64");
        const { "sec-websocket-accept": accepted, "sec-websocket-extensions": extensions } = response.headers;
        if (accepted !== expected || extensions !== undefined) {
          socket.destroy();
          reject(new EgressError("client.protocol", "the server did not shake hands", "is this the API of egress?"));
          return;
        }
        // Frames may have come with the head of the answer.
        if (head.length > 0) socket.unshift(head);
        resolve(new WebSocketConnection(socket, signal));
      });
      request.end();
    });
  }

  /** Send a message, and wait until the system has taken it. */
  send(data: string | Uint8Array): Promise<void> {
    return typeof data === "string" ? this.#write(OPCODE.text, Buffer.from(data)) : this.#write(OPCODE.bytes, data);
  }

  /** The messages of the server, until it closes. Pings are answered while they are read. */
  async *messages(): AsyncGenerator<string | Buffer> {
    try {
      yield* readMessages(this.#socket, ({ opcode, data }) => {
        // A pong is no error of its own, and none is kept for a server that does not read.
        if (opcode === OPCODE.ping && !this.#socket.writableNeedDrain) {
          this.#write(OPCODE.pong, data).catch(() => undefined);
        }
      });
    } catch (error) {
      throw error instanceof EgressError && !this.#signal?.aborted ? error : connectionError(error, this.#signal);
    } finally {
      this.close();
    }
  }

  /** Close the connection. The server learns it from the end of the socket. */
  close(): void {
    this.#socket.destroy();
  }

  #write(opcode: number, data: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.write(encodeFrame(opcode, data), (error) =>
        error ? reject(connectionError(error, this.#signal)) : resolve(),
      );
    });
  }
}
