/** An agent with a scripted model: it calls an API, and then searches its sandbox for the credential. Prints JSON. */

import { type Context, fauxAssistantMessage, fauxProvider, fauxToolCall } from "@earendil-works/pi-ai";
import { init, useModel, useSandbox } from "@flue/runtime";
import { start } from "@flue/runtime/node";

import { egress } from "./sandboxes/egress.ts";

const { API = "", SECRET_PATTERN = "", URL, TOKEN, CA } = process.env;

const COMMANDS = [
  `curl -sS ${API}/v1/user`,
  "env; cat /proc/self/environ",
  "echo made-up-other >/tmp/planted",
  // The pattern matches the secret and is not the secret, so the search does not find itself.
  `find /workspace /tmp /run /var/tmp /home /etc -xdev -type f -readable -exec grep -lE '${SECRET_PATTERN}' {} + 2>/dev/null; echo searched`,
  `curl -sS -o /dev/null -w '%{http_code}' ${API}/v1/user/keys`,
];

const model = fauxProvider();
model.setResponses([
  ...COMMANDS.map((command) => fauxAssistantMessage(fauxToolCall("bash", { command }), { stopReason: "toolUse" })),
  (context) => fauxAssistantMessage(JSON.stringify(toolResults(context))),
]);

/** What the model has read: the results of its tools, as text. */
function toolResults(context: Context): string[] {
  return context.messages
    .filter((message) => message.role === "toolResult")
    .map((message) => message.content.map((part) => (part.type === "text" ? part.text : "")).join(""));
}

/** A port where one is given; the unix socket of this machine otherwise. */
const endpoint = URL === undefined ? {} : { url: URL, token: TOKEN ?? "", ca: CA };

function Caller(): string {
  useModel("faux/faux-1");
  useSandbox(egress({ ...endpoint, settings: { labels: { agent: "caller" } } }));
  return "Call the API.";
}

const flue = await start({ agents: [Caller], providers: [model.provider] });
const agent = init(Caller, { id: "user-7" });
const reply = await agent.read(await agent.dispatch("Who am I?"));
await flue.stop();
console.log(reply.text);
