/** The client of the Egress API. See README.md beside this package. */

export { EgressClient } from "./client.js";
export type { CommandLine } from "./command.js";
export type { EndpointOptions } from "./endpoint.js";
export { EgressError, type EgressErrorType, isEgressError } from "./errors.js";
export type { EventStream } from "./event_stream.js";
export type { PartOptions, SandboxFiles } from "./files.js";
export type {
  OutputEvent,
  OutputOptions,
  OutputPart,
  ProcessOptions,
  SandboxProcess,
  SandboxProcesses,
} from "./processes.js";
export type { CommandEvent, CommandOptions, Sandbox } from "./sandbox.js";
export type * from "./schema.js";
export { defaultSocketPath } from "./socket_path.js";
export type { Answer, ByteSource, CallOptions, Given, ValueOperation } from "./transport.js";
