// A response and a completion, whole and streamed, by the SDK as its documentation shows it.
import OpenAI from "openai";

const client = new OpenAI();
console.log((await client.responses.create({ model: "gpt-6", input: "hello" })).output_text);
for await (const event of await client.responses.create({ model: "gpt-6", input: "hello", stream: true })) {
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
}
console.log();
const asked = { model: "gpt-6", messages: [{ role: "user", content: "hello" }] };
console.log((await client.chat.completions.create(asked)).choices[0].message.content);
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
  process.stdout.write(chunk.choices[0].delta.content ?? "");
}
console.log();
