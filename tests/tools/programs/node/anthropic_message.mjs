// A message, whole and streamed, by the SDK as its documentation shows it.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic();
const asked = { model: "claude-sonnet-5", max_tokens: 100, messages: [{ role: "user", content: "hello" }] };
console.log((await client.messages.create(asked)).content[0].text);
const stream = client.messages.stream(asked).on("text", (text) => process.stdout.write(text));
await stream.finalMessage();
console.log();
