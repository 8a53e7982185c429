import type { ServerEvent } from "./event_stream.js";

/** A line for a shell, or the words of one program. */
export type CommandLine = string | readonly string[];

/** A piece of an output. `base64` is there with that encoding. */
export interface CommandOutput {
  readonly kind: "stdout" | "stderr";
  readonly text?: string;
  readonly base64?: string;
}

export interface CommandExit {
  readonly kind: "exit";
  readonly exit_code: number;
  readonly duration: number;
  readonly timed_out: boolean;
}

export type CommandEvent = CommandOutput | CommandExit;

/** The form that the API has for such a command. */
export function commandWords(command: CommandLine): { command: string } | { argv: readonly string[] } {
  return typeof command === "string" ? { command } : { argv: command };
}

/** An event of the server, with its name as its kind. */
export function namedEvent<Event extends { readonly kind: string }>({ name, data }: ServerEvent): Event {
  return { kind: name, ...data };
}

export function isExit(event: { readonly kind: string }): boolean {
  return event.kind === "exit";
}
