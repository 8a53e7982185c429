import type { Readable } from "node:stream";

import { MAX_ANSWER_BYTES, readAll } from "./answer.js";
import { EgressError, isEgressError } from "./errors.js";
import type { EventStream } from "./event_stream.js";
import type { ChangeView, FileEntryView, FileView } from "./schema.js";
import type { ByteSource, CallOptions, Transport } from "./transport.js";

/** A part of a file; all of it without either. */
export interface PartOptions extends CallOptions {
  /** The first byte. */
  readonly offset?: number | undefined;
  /** The number of bytes. */
  readonly length?: number | undefined;
}

/** Files of a sandbox. A path without a slash at its start begins in the workspace. */
export class SandboxFiles {
  readonly #transport: Transport;
  readonly #parts: { readonly name: string };

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.#parts = { name };
  }

  /** Return the bytes of a file, if it has no more than `maxBytes`. */
  async read(path: string, options: PartOptions & { maxBytes?: number | undefined } = {}): Promise<Uint8Array> {
    const { maxBytes = MAX_ANSWER_BYTES, ...rest } = options;
    return readAll(await this.readStream(path, rest), maxBytes, options.signal);
  }

  /** Return a file as text. Bytes that are not UTF-8 are replaced. */
  async readText(path: string, options?: PartOptions & { maxBytes?: number | undefined }): Promise<string> {
    return Buffer.from(await this.read(path, options)).toString("utf8");
  }

  /** Return a file as a stream. The caller reads or destroys it. */
  async readStream(path: string, options: PartOptions = {}): Promise<Readable> {
    const { offset, length, signal } = options;
    return this.#transport.fetch("get_file", this.#at(path), { signal }, rangeHeader(offset, length));
  }

  /** Write a file with the folders above it. It is replaced when all of it has arrived. */
  write(path: string, data: ByteSource, options: CallOptions & { mode?: string | undefined } = {}): Promise<void> {
    const { mode, signal } = options;
    return this.#transport.send("put_file", { parts: this.#parts, query: { path, mode } }, data, { signal });
  }

  /** Describe a file or a folder; for a link, its target. */
  stat(path: string, options?: CallOptions): Promise<FileView> {
    return this.#transport.call("stat", this.#at(path), options);
  }

  async exists(path: string, options?: CallOptions): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (isEgressError(error, "path.not_found")) return false;
      throw error;
    }
  }

  /** List the entries of a folder, at most 10,000. */
  async list(path: string, options?: CallOptions): Promise<readonly FileEntryView[]> {
    return (await this.#transport.call("list_folder", this.#at(path), options)).entries;
  }

  /** Create a folder; with `parents`, also those above it, and an existing one is no error. */
  mkdir(path: string, options: CallOptions & { parents?: boolean | undefined } = {}): Promise<void> {
    const { parents, signal } = options;
    return this.#transport.call("make_folder", { parts: this.#parts, body: { path, parents } }, { signal });
  }

  /** Rename a file or a folder. */
  rename(path: string, target: string, options?: CallOptions): Promise<void> {
    return this.#transport.call("rename", { parts: this.#parts, body: { path, target } }, options);
  }

  /** Remove a file, a link or a folder; a folder with its content if `recursive`. */
  remove(path: string, options: CallOptions & { recursive?: boolean | undefined } = {}): Promise<void> {
    const { recursive, signal } = options;
    return this.#transport.call("delete_file", { parts: this.#parts, query: { path, recursive } }, { signal });
  }

  /** Follow the changes below a path, from now on; `interval` is the seconds between two looks. */
  watch(
    path: string,
    options: CallOptions & { interval?: number | undefined } = {},
  ): Promise<EventStream<ChangeView>> {
    const { interval, signal } = options;
    const given = { parts: this.#parts, query: { path, interval } };
    return this.#transport.follow("watch", given, (event) => event.data as ChangeView, { signal });
  }

  #at(path: string): { parts: { readonly name: string }; query: { path: string } } {
    return { parts: this.#parts, query: { path } };
  }
}

function rangeHeader(offset = 0, length?: number): { range?: string } {
  if (!Number.isSafeInteger(offset) || offset < 0 || !Number.isSafeInteger(length ?? 1) || (length ?? 1) < 1) {
    throw new EgressError("client.settings", "`offset` counts from 0 and `length` from 1", "name whole numbers");
  }
  if (offset === 0 && length === undefined) return {};
  return { range: `bytes=${offset}-${length === undefined ? "" : offset + length - 1}` };
}
