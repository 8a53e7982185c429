/** The client of the Egress API. See README.md beside this package. */

export type { AttachedTerminal, TerminalEvent } from "./attached_terminal.js";
export { EgressClient } from "./client.js";
export type { CommandEvent, CommandExit, CommandLine, CommandOutput } from "./command.js";
export type { EndpointOptions } from "./endpoint.js";
export { EgressError, type EgressErrorType, isEgressError } from "./errors.js";
export type { EventStream } from "./event_stream.js";
export type { PartOptions, SandboxFiles } from "./files.js";
export type { InteractiveCommand, InteractiveEvent, InteractiveOptions } from "./interactive_command.js";
export type { AuditLine, AuditQuery, LogPage, LogQuery } from "./log.js";
export type { SandboxPolicy } from "./policy.js";
export type {
  OutputEvent,
  OutputOptions,
  OutputPart,
  ProcessOptions,
  SandboxProcess,
  SandboxProcesses,
} from "./processes.js";
export type { CommandOptions, Sandbox } from "./sandbox.js";
export type * from "./schema.js";
export type { SandboxSession, SandboxSessions, SessionCommandEvent, SessionCommandOptions } from "./sessions.js";
export { defaultSocketPath } from "./socket_path.js";
export type { Answer, ByteSource, CallOptions, Given, ValueOperation } from "./transport.js";
