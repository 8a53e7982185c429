import type { CommandExit } from "./command.js";
import { type MessageMeaning, MessageStream, type OutputBytes, type TextMessage } from "./message_stream.js";
import type { CloseInputMessage, KillMessage, ResultMessage, StartMessage } from "./schema.js";
import type { CallOptions } from "./transport.js";
import type { WebSocketConnection } from "./websocket.js";

export type InteractiveOptions = Omit<StartMessage, "type" | "argv"> & CallOptions;

/** An event of an interactive command: bytes of its output, or its end. */
export type InteractiveEvent = OutputBytes | CommandExit;

/** A command whose input and output go over one connection. It ends with the connection, unless it is detached. */
export class InteractiveCommand extends MessageStream<CommandExit> {
  /** Start a command. Throws its problem if it does not start. */
  static async start(
    connection: WebSocketConnection,
    argv: readonly string[],
    options: InteractiveOptions,
  ): Promise<InteractiveCommand> {
    const { signal, ...settings } = options;
    const command = new InteractiveCommand(connection, signal);
    const message: StartMessage = { type: "start", argv, stdin: true, ...settings };
    await command.say(message);
    await command.begin();
    return command;
  }

  /** Say that the input is complete. */
  closeInput(): Promise<void> {
    const message: CloseInputMessage = { type: "close_input" };
    return this.inTurn(() => this.say(message));
  }

  /** End the process group: SIGTERM, and SIGKILL after `grace` seconds. */
  kill(grace?: number): Promise<void> {
    const message: KillMessage = { type: "kill", grace };
    return this.say(message);
  }

  protected override meaning(message: TextMessage): MessageMeaning<CommandExit> {
    if (message.type === "started") return { isBegin: true };
    // A later version may say more.
    if (message.type !== "result") return {};
    const { type: _, ...result } = message as ResultMessage;
    return { event: { kind: "exit", ...result }, isEnd: true };
  }
}
