import { MAX_ANSWER_BYTES, readAll } from "./answer.js";
import { AttachedTerminal } from "./attached_terminal.js";
import { type CommandLine, commandWords, namedEvent } from "./command.js";
import { EgressError } from "./errors.js";
import type { EventStream } from "./event_stream.js";
import type { OutputEventView, ProcessSettings, ProcessView, WaitSettings } from "./schema.js";
import type { ByteSource, CallOptions, Transport } from "./transport.js";

export type ProcessOptions = Omit<ProcessSettings, "command" | "argv"> & CallOptions;

/** Which output, from which byte on. */
export interface OutputOptions extends CallOptions {
  readonly stream?: "stdout" | "stderr" | undefined;
  readonly offset?: number | undefined;
}

/** A part of an output, with its place in it. */
export interface OutputPart {
  readonly data: Uint8Array;
  /** The offset of the first byte of `data`; higher than the one that was asked for if those bytes are gone. */
  readonly offset: number;
  /** The offset to continue from. */
  readonly next: number;
  /** The lowest offset that is kept. */
  readonly first: number;
}

/** An event of an output. `lost` says that the bytes from `offset` to `next` are gone. */
export type OutputEvent = OutputEventView & { readonly kind: "output" | "lost" | "end" };

/** The processes of a sandbox that go on without their client. */
export class SandboxProcesses {
  readonly #transport: Transport;
  readonly #name: string;

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.#name = name;
  }

  /** Start a command that any client finds again by its id. */
  async start(command: CommandLine, options: ProcessOptions = {}): Promise<SandboxProcess> {
    const { signal, ...settings } = options;
    const given = { parts: { name: this.#name }, body: { ...settings, ...commandWords(command) } };
    return this.process((await this.#transport.call("start_process", given, { signal })).id);
  }

  /** List the processes that run, and the last that ended. */
  async list(options?: CallOptions): Promise<readonly ProcessView[]> {
    return (await this.#transport.call("list_processes", { parts: { name: this.#name } }, options)).processes;
  }

  /** The process of an id, which has to exist. */
  async get(id: string, options?: CallOptions): Promise<SandboxProcess> {
    const process = this.process(id);
    await process.view(options);
    return process;
  }

  /** A handle of a process, without a call. */
  process(id: string): SandboxProcess {
    return new SandboxProcess(this.#transport, this.#name, id);
  }
}

/** A process, by its id. */
export class SandboxProcess {
  readonly id: string;
  readonly #transport: Transport;
  readonly #parts: { readonly name: string; readonly process: string };

  constructor(transport: Transport, name: string, id: string) {
    this.id = id;
    this.#transport = transport;
    this.#parts = { name, process: id };
  }

  /** The process as it is now. */
  view(options?: CallOptions): Promise<ProcessView> {
    return this.#transport.call("get_process", { parts: this.#parts }, options);
  }

  /** Return the kept output from an offset on. */
  async output(options: OutputOptions = {}): Promise<OutputPart> {
    const { signal, ...query } = options;
    const response = await this.#transport.fetch("read_output", { parts: this.#parts, query }, { signal });
    const data = await readAll(response, MAX_ANSWER_BYTES, signal);
    const offset = (name: string): number => readOffset(response.headers[`egress-${name}`]);
    return { data, offset: offset("offset"), next: offset("next-offset"), first: offset("first-offset") };
  }

  /** Follow the output to its end. After a lost connection, continue with the last `next` as `offset`. */
  follow(options: OutputOptions & { encoding?: "base64" | "utf-8" } = {}): Promise<EventStream<OutputEvent>> {
    const { signal, ...query } = options;
    const last = (event: OutputEvent): boolean => event.kind === "end";
    return this.#transport.follow("read_output", { parts: this.#parts, query }, namedEvent<OutputEvent>, { signal, last });
  }

  /** Send input; `close` says that it is complete. */
  write(data: ByteSource, options: CallOptions & { close?: boolean | undefined } = {}): Promise<void> {
    const { signal, close } = options;
    return this.#transport.send("write_input", { parts: this.#parts, query: { close } }, data, { signal });
  }

  /** Attach to its terminal, if it was started with `terminal`, and tell it the size of this one. */
  async attach(
    size: { columns?: number | undefined; rows?: number | undefined } = {},
    options: CallOptions = {},
  ): Promise<AttachedTerminal> {
    const given = { parts: this.#parts, query: size };
    return AttachedTerminal.attach(await this.#transport.connect("attach_terminal", given, options), options.signal);
  }

  /** Send a signal, such as `HUP`, to all of its processes. */
  signal(name: string, options?: CallOptions): Promise<void> {
    return this.#transport.call("signal_process", { parts: this.#parts, body: { name } }, options);
  }

  /** End the process group: SIGTERM, and SIGKILL after `grace` seconds. */
  kill(grace?: number, options?: CallOptions): Promise<void> {
    return this.#transport.call("signal_process", { parts: this.#parts, body: { grace } }, options);
  }

  /** Wait for its end, or with `log` for a text in its output, or with `port` for a listener. */
  wait(settings: WaitSettings & CallOptions = {}): Promise<ProcessView> {
    const { signal, ...body } = settings;
    return this.#transport.call("wait_for_process", { parts: this.#parts, body }, { signal });
  }

  /** End it if it runs, and forget it. */
  delete(options?: CallOptions): Promise<void> {
    return this.#transport.call("delete_process", { parts: this.#parts }, options);
  }
}

function readOffset(text: string | readonly string[] | undefined): number {
  const offset = typeof text === "string" && /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(offset)) throw new EgressError("client.protocol", "the answer says no offset");
  return offset;
}
