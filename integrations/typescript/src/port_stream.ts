import { Duplex } from "node:stream";

import { EgressError } from "./errors.js";
import type { WebSocketConnection } from "./websocket.js";

const MAX_PIECE_BYTES = 64 * 1024;

/** The bytes of a connection as a stream. The end of the writing side is not passed on; its destruction is. */
export function portStream(connection: WebSocketConnection): Duplex {
  const messages = connection.messages();
  return new Duplex({
    async read() {
      try {
        const { value, done } = await messages.next();
        if (typeof value === "string") throw new EgressError("client.protocol", "a port sent a text");
        this.push(done === true ? null : value);
      } catch (error) {
        this.destroy(error as Error);
      }
    },
    write(chunk: Buffer, _encoding, callback) {
      sendPieces(connection, chunk).then(() => callback(), callback);
    },
    destroy(error, callback) {
      connection.close();
      callback(error);
    },
  });
}

async function sendPieces(connection: WebSocketConnection, data: Buffer): Promise<void> {
  for (let begin = 0; begin < data.length; begin += MAX_PIECE_BYTES) {
    await connection.send(data.subarray(begin, begin + MAX_PIECE_BYTES));
  }
}
