/** Parses streams of events: a line of JSON has the pieces in base64, a line of the answer what became of them. */

import { createInterface } from "node:readline";

import { EgressError } from "../node_modules/egress-client/dist/errors.js";
import { parseEvents } from "../node_modules/egress-client/dist/event_stream.js";

async function* pieces(line: string): AsyncGenerator<Uint8Array> {
  for (const piece of JSON.parse(line) as string[]) yield Buffer.from(piece, "base64");
}

for await (const line of createInterface({ input: process.stdin })) {
  const found: unknown[] = [];
  try {
    for await (const { name, data } of parseEvents(pieces(line))) found.push([name, data]);
  } catch (error) {
    found.push(error instanceof EgressError ? error.type : String(error));
  }
  console.log(JSON.stringify(found));
}
