/**
 * Parses what servers send: a line of JSON has the pieces of a stream in base64, and a line of the answer what became
 * of them. The first word on the command line is what they are: `events` or `frames`.
 */

import { createInterface } from "node:readline";

import { EgressError } from "../node_modules/egress-client/dist/errors.js";
import { parseEvents } from "../node_modules/egress-client/dist/event_stream.js";
import { encodeFrame, readMessages } from "../node_modules/egress-client/dist/frames.js";

type Pieces = AsyncGenerator<Uint8Array>;

async function* pieces(line: string): Pieces {
  for (const piece of JSON.parse(line) as string[]) yield Buffer.from(piece, "base64");
}

const PARSERS: Record<string, (source: Pieces, found: unknown[]) => Promise<void>> = {
  async events(source, found) {
    for await (const { name, data } of parseEvents(source)) found.push([name, data]);
  },
  async frames(source, found) {
    const control = (frame: { opcode: number; data: Buffer }): void =>
      void found.push(["control", frame.opcode, frame.data.toString("base64")]);
    for await (const message of readMessages(source, control)) {
      found.push(typeof message === "string" ? ["text", message] : ["bytes", message.toString("base64")]);
    }
  },
  async encode(source, found) {
    for await (const data of source) found.push(encodeFrame(2, data).toString("base64"));
  },
};

const parse = PARSERS[process.argv[2] ?? ""]!;
for await (const line of createInterface({ input: process.stdin })) {
  const found: unknown[] = [];
  try {
    await parse(pieces(line), found);
  } catch (error) {
    found.push(error instanceof EgressError ? error.type : String(error));
  }
  console.log(JSON.stringify(found));
}
