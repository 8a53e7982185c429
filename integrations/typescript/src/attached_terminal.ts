import { type MessageMeaning, MessageStream, type OutputBytes, type TextMessage } from "./message_stream.js";
import type { AttachedMessage, EndedMessage, ProcessView } from "./schema.js";
import type { WebSocketConnection } from "./websocket.js";

/** `attached` says that the output which comes next shows the terminal as it is, and `ended` that the process has. */
export interface TerminalChange {
  readonly kind: "attached" | "ended";
  readonly process: ProcessView;
}

export type TerminalEvent = OutputBytes | TerminalChange;

/** The terminal of a process. The process goes on when the client leaves. */
export class AttachedTerminal extends MessageStream<TerminalChange> {
  /** Wait until the server shows the terminal. */
  static async attach(connection: WebSocketConnection, signal: AbortSignal | undefined): Promise<AttachedTerminal> {
    const terminal = new AttachedTerminal(connection, signal);
    await terminal.begin();
    return terminal;
  }

  protected override meaning(message: TextMessage): MessageMeaning<TerminalChange> {
    const { type: kind, process } = message as AttachedMessage | EndedMessage;
    // A later version may say more.
    if (kind !== "attached" && kind !== "ended") return {};
    return { event: { kind, process }, isBegin: kind === "attached", isEnd: kind === "ended" };
  }
}
