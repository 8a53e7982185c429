/** A line for a shell, or the words of one program. */
export type CommandLine = string | readonly string[];

/** The form that the API has for such a command. */
export function commandWords(command: CommandLine): { command: string } | { argv: readonly string[] } {
  return typeof command === "string" ? { command } : { argv: command };
}
