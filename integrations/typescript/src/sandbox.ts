import type { Duplex, Readable } from "node:stream";

import { type CommandEvent, type CommandLine, commandWords, isExit, namedEvent } from "./command.js";
import type { EventStream } from "./event_stream.js";
import { SandboxFiles } from "./files.js";
import { InteractiveCommand, type InteractiveOptions } from "./interactive_command.js";
import { type AuditLine, type AuditQuery, followLog, type LogPage, readLog } from "./log.js";
import { SandboxPolicy } from "./policy.js";
import { portStream } from "./port_stream.js";
import { SandboxProcesses } from "./processes.js";
import type {
  CloneSettings,
  CloneView,
  CommandResult,
  CommandSettings,
  ExposeSettings,
  PreviewView,
  SandboxChanges,
  SandboxView,
  SnapshotSettings,
  SnapshotView,
} from "./schema.js";
import { SandboxSessions } from "./sessions.js";
import type { ByteSource, CallOptions, Transport } from "./transport.js";

export type CommandOptions = Omit<CommandSettings, "command" | "argv"> & CallOptions;

/** A sandbox, by its name. */
export class Sandbox {
  readonly name: string;
  readonly files: SandboxFiles;
  readonly processes: SandboxProcesses;
  readonly sessions: SandboxSessions;
  readonly policy: SandboxPolicy;
  readonly #transport: Transport;
  readonly #parts: { readonly name: string };

  constructor(transport: Transport, name: string) {
    this.name = name;
    this.#transport = transport;
    this.#parts = { name };
    this.files = new SandboxFiles(transport, name);
    this.processes = new SandboxProcesses(transport, name);
    this.sessions = new SandboxSessions(transport, name);
    this.policy = new SandboxPolicy(transport, name);
  }

  /** The sandbox as it is now: its state, its settings and its remaining time. */
  view(options?: CallOptions): Promise<SandboxView> {
    return this.#transport.call("get_sandbox", { parts: this.#parts }, options);
  }

  /** Change its time limits. The settings that it was created with still find it. */
  change(changes: SandboxChanges, options?: CallOptions): Promise<SandboxView> {
    return this.#transport.call("change_sandbox", { parts: this.#parts, body: changes }, options);
  }

  /** Remove it with its files. */
  delete(options?: CallOptions): Promise<void> {
    return this.#transport.call("delete_sandbox", { parts: this.#parts }, options);
  }

  // Commands

  /**
   * Run a command to its end. Any exit status is a result; `timeout` ends it with the status 124. The signal ends
   * its process group.
   */
  exec(command: CommandLine, options: CommandOptions = {}): Promise<CommandResult> {
    const { signal, ...settings } = options;
    const body = { ...settings, ...commandWords(command) };
    return this.#transport.call("exec", { parts: this.#parts, body }, { signal });
  }

  /** Run a command, and return its output as it comes. The end of the stream, or the signal, ends its process group. */
  stream(command: CommandLine, options: CommandOptions = {}): Promise<EventStream<CommandEvent>> {
    const { signal, ...settings } = options;
    const body = { ...settings, ...commandWords(command) };
    const given = { parts: this.#parts, body };
    return this.#transport.follow("exec", given, namedEvent<CommandEvent>, { signal, last: isExit });
  }

  /**
   * Start a program with input and output on one connection, and with `terminal` in a terminal. Its output has to be
   * read: a command whose output nobody reads waits, and so does its input.
   */
  async open(argv: readonly string[], options: InteractiveOptions = {}): Promise<InteractiveCommand> {
    const connection = await this.#transport.connect("exec_stream", { parts: this.#parts }, options);
    return InteractiveCommand.start(connection, argv, options);
  }

  // Its life

  /** Make it ready for commands. */
  start(options?: CallOptions): Promise<SandboxView> {
    return this.#transport.call("start_sandbox", { parts: this.#parts }, options);
  }

  /** End all its processes; its files stay. */
  stop(options?: CallOptions): Promise<void> {
    return this.#transport.call("stop_sandbox", { parts: this.#parts }, options);
  }

  /** Freeze all its processes. */
  pause(options?: CallOptions): Promise<void> {
    return this.#transport.call("pause_sandbox", { parts: this.#parts }, options);
  }

  /** Thaw its processes. */
  resume(options?: CallOptions): Promise<void> {
    return this.#transport.call("resume_sandbox", { parts: this.#parts }, options);
  }

  /** Stop it until its next use; its files stay. */
  sleep(options?: CallOptions): Promise<void> {
    return this.#transport.call("sleep_sandbox", { parts: this.#parts }, options);
  }

  /** Start it after a sleep. */
  wake(options?: CallOptions): Promise<void> {
    return this.#transport.call("wake_sandbox", { parts: this.#parts }, options);
  }

  /** Record a use, so that it does not count as idle. */
  touch(options?: CallOptions): Promise<void> {
    return this.#transport.call("touch_sandbox", { parts: this.#parts }, options);
  }

  // Archives, repositories and snapshots

  /** Unpack a tar archive into a folder, as the user of the sandbox. */
  putArchive(path: string, archive: ByteSource, options?: CallOptions): Promise<void> {
    return this.#transport.send("put_archive", { parts: this.#parts, query: { path } }, archive, options);
  }

  /** A tar archive of a file, or of the content of a folder. The caller reads or destroys it. */
  getArchive(path: string, options?: CallOptions): Promise<Readable> {
    return this.#transport.fetch("get_archive", { parts: this.#parts, query: { path } }, options);
  }

  /** Clone a repository over HTTPS. The address holds no credential: the rules inject it. */
  clone(settings: CloneSettings, options?: CallOptions): Promise<CloneView> {
    return this.#transport.call("clone", { parts: this.#parts, body: settings }, options);
  }

  /** Keep its files under a name, for sandboxes that begin with `snapshot`. */
  snapshot(name: string, kind: SnapshotSettings["kind"] = "workspace", options?: CallOptions): Promise<SnapshotView> {
    const body = { sandbox: this.name, kind };
    return this.#transport.call("create_snapshot", { parts: { name }, body }, options);
  }

  // Its lines in the audit log

  /** Read its lines in the log of this run, newest first. */
  audit(query: AuditQuery = {}, options?: CallOptions): Promise<LogPage> {
    return readLog(this.#transport, "query_audit", { parts: this.#parts, query }, options);
  }

  /** Follow its lines in the log. */
  followAudit(query: AuditQuery = {}, options?: CallOptions): Promise<EventStream<AuditLine>> {
    return followLog(this.#transport, "query_audit", { parts: this.#parts, query }, options);
  }

  // Ports

  /** Lead further ports of the rules to the proxy. */
  openPorts(ports: readonly number[], options?: CallOptions): Promise<void> {
    return this.#transport.call("open_ports", { parts: this.#parts, body: { ports } }, options);
  }

  /** Connect to a TCP port in the sandbox. The end of the writing side is not passed on. */
  async dial(port: number, options?: CallOptions): Promise<Duplex> {
    return portStream(await this.#transport.connect("dial", { parts: { ...this.#parts, port } }, options));
  }

  /**
   * Expose a port to browsers, and to programs that show the token. The address holds the token: keep it private.
   * `expires` is the time in seconds until it ends, and replaces the time that a preview has left.
   */
  expose(port: number, settings: ExposeSettings = {}, options?: CallOptions): Promise<PreviewView> {
    return this.#transport.call("expose", { parts: { ...this.#parts, port }, body: settings }, options);
  }

  /** Withdraw an exposed port. */
  unexpose(port: number, options?: CallOptions): Promise<void> {
    return this.#transport.call("unexpose", { parts: { ...this.#parts, port } }, options);
  }
}
