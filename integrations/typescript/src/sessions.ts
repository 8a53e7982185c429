import { type CommandExit, type CommandOutput, isExit, namedEvent } from "./command.js";
import type { EventStream } from "./event_stream.js";
import type { SessionCommandResult, SessionCommandSettings, SessionSettings, SessionView } from "./schema.js";
import type { CallOptions, Transport } from "./transport.js";

export type SessionCommandOptions = Omit<SessionCommandSettings, "command"> & CallOptions;

/** An event of a command in a session. `state_kept` says whether its folder and variables are still there. */
export type SessionCommandEvent = CommandOutput | (CommandExit & { readonly state_kept: boolean });

/** The sessions of a sandbox: shells that keep their folder and variables between commands. */
export class SandboxSessions {
  readonly #transport: Transport;
  readonly #name: string;

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.#name = name;
  }

  /** Create a session, or find the one of this id; one that is lost begins again. */
  async open(id: string, settings: SessionSettings = {}, options?: CallOptions): Promise<SandboxSession> {
    await this.#transport.call("ensure_session", { parts: { name: this.#name, session: id }, body: settings }, options);
    return this.session(id);
  }

  /** List them, in the order of their creation. */
  async list(options?: CallOptions): Promise<readonly SessionView[]> {
    return (await this.#transport.call("list_sessions", { parts: { name: this.#name } }, options)).sessions;
  }

  /** A handle of a session, without a call. */
  session(id: string): SandboxSession {
    return new SandboxSession(this.#transport, this.#name, id);
  }
}

/** A session, by its id. It runs one command at a time; further ones wait for their turn. */
export class SandboxSession {
  readonly id: string;
  readonly #transport: Transport;
  readonly #parts: { readonly name: string; readonly session: string };

  constructor(transport: Transport, name: string, id: string) {
    this.id = id;
    this.#transport = transport;
    this.#parts = { name, session: id };
  }

  /** Run lines to their end. The signal ends them, and not the session. */
  exec(command: string, options: SessionCommandOptions = {}): Promise<SessionCommandResult> {
    const { signal, ...settings } = options;
    return this.#transport.call("exec_in_session", { parts: this.#parts, body: { ...settings, command } }, { signal });
  }

  /** Run lines, and return their output as it comes. The end of the stream ends them. */
  stream(command: string, options: SessionCommandOptions = {}): Promise<EventStream<SessionCommandEvent>> {
    const { signal, ...settings } = options;
    const given = { parts: this.#parts, body: { ...settings, command } };
    return this.#transport.follow("exec_in_session", given, namedEvent<SessionCommandEvent>, { signal, last: isExit });
  }

  /** The session as it is now. */
  view(options?: CallOptions): Promise<SessionView> {
    return this.#transport.call("get_session", { parts: this.#parts }, options);
  }

  /** End it with its processes. */
  delete(options?: CallOptions): Promise<void> {
    return this.#transport.call("delete_session", { parts: this.#parts }, options);
  }
}
