import { randomBytes } from "node:crypto";

import { connectionError, EgressError } from "./errors.js";

/** The kinds of frames of a WebSocket. */
export const OPCODE = { more: 0, text: 1, bytes: 2, close: 8, ping: 9, pong: 10 } as const;
export const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_CONTROL_BYTES = 125;

export interface Frame {
  readonly opcode: number;
  readonly isFinal: boolean;
  readonly data: Buffer;
}

/** The bytes of one whole message, masked as clients have to. */
export function encodeFrame(opcode: number, data: Uint8Array, mask: Uint8Array = randomBytes(4)): Buffer {
  const size = data.length;
  const extra = size <= MAX_CONTROL_BYTES ? 0 : size < 65_536 ? 2 : 8;
  const frame = Buffer.alloc(2 + extra + 4 + size);
  frame[0] = 0x80 | opcode;
  frame[1] = 0x80 | (extra === 0 ? size : extra === 2 ? 126 : 127);
  if (extra === 2) frame.writeUInt16BE(size, 2);
  if (extra === 8) frame.writeBigUInt64BE(BigInt(size), 2);
  frame.set(mask, 2 + extra);
  const start = 2 + extra + 4;
  for (let index = 0; index < size; index++) frame[start + index] = data[index]! ^ mask[index & 3]!;
  return frame;
}

/** Read messages of a server: strings and bytes. Control frames go to the caller. It ends with the close frame. */
export async function* readMessages(
  source: AsyncIterable<Uint8Array>,
  onControl: (frame: Frame) => void = () => undefined,
): AsyncGenerator<string | Buffer> {
  let begun: number | undefined;
  let parts: Buffer[] = [];
  let size = 0;
  for await (const frame of readFrames(source)) {
    const { opcode, isFinal, data } = frame;
    if (opcode >= OPCODE.close) {
      onControl(frame);
      if (opcode === OPCODE.close) return;
      continue;
    }
    if ((opcode === OPCODE.more) !== (begun !== undefined)) throw broken("the parts of a message do not fit");
    begun ??= opcode;
    size += data.length;
    if (size > MAX_MESSAGE_BYTES) throw broken(`a message has more than ${MAX_MESSAGE_BYTES} bytes`);
    // Empty parts are not kept: any number of them may come.
    if (data.length > 0) parts.push(data);
    if (!isFinal) continue;
    const whole = Buffer.concat(parts);
    const isText = begun === OPCODE.text;
    [begun, parts, size] = [undefined, [], 0];
    yield isText ? decodeText(whole) : whole;
  }
}

async function* readFrames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Frame> {
  const bytes = new ByteReader(source);
  for (;;) {
    const head = await bytes.take(2);
    if (head === undefined) return;
    const [first, second] = [head[0]!, head[1]!];
    const opcode = first & 0x0f;
    const isFinal = (first & 0x80) !== 0;
    const isControl = opcode >= OPCODE.close;
    if ((first & 0x70) !== 0) throw broken("a frame has an extension");
    if ((second & 0x80) !== 0) throw broken("a frame is masked");
    if (!(Object.values(OPCODE) as number[]).includes(opcode)) throw broken("a frame has an unknown kind");
    const size = await readSize(bytes, second);
    if (isControl && (!isFinal || size > MAX_CONTROL_BYTES)) throw broken("a control frame is too long");
    yield { opcode, isFinal, data: await bytes.need(size) };
  }
}

async function readSize(bytes: ByteReader, short: number): Promise<number> {
  if (short < 126) return short;
  const size = short === 126 ? (await bytes.need(2)).readUInt16BE() : Number((await bytes.need(8)).readBigUInt64BE());
  if (size > MAX_MESSAGE_BYTES) throw broken(`a frame has more than ${MAX_MESSAGE_BYTES} bytes`);
  if (size < (short === 126 ? 126 : 65_536)) throw broken("a size is written too long");
  return size;
}

function decodeText(data: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw broken("a text is not UTF-8");
  }
}

function broken(what: string): EgressError {
  return new EgressError("client.protocol", `the server broke the protocol of WebSockets: ${what}`);
}

/** Takes so many bytes at a time from pieces of any size. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #kept: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The next bytes; nothing at the end. */
  async take(count: number): Promise<Buffer | undefined> {
    const pieces = [this.#kept];
    let size = this.#kept.length;
    while (size < count) {
      const { value, done } = await this.#source.next();
      if (done === true && size === 0) return undefined;
      if (done === true) throw connectionError(new Error("the connection ended in a frame"), undefined);
      pieces.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
      size += value.byteLength;
    }
    const all = pieces.length === 1 ? this.#kept : Buffer.concat(pieces);
    this.#kept = all.subarray(count);
    return all.subarray(0, count);
  }

  /** The next bytes, which have to come. */
  async need(count: number): Promise<Buffer> {
    const found = count === 0 ? Buffer.alloc(0) : await this.take(count);
    if (found === undefined) throw connectionError(new Error("the connection ended in a frame"), undefined);
    return found;
  }
}
