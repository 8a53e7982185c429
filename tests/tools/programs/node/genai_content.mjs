// Content, whole and streamed, by the SDK as its documentation shows it.
import { GoogleGenAI } from "@google/genai";

const client = new GoogleGenAI({});
const asked = { model: "gemini-3-flash", contents: "hello" };
console.log((await client.models.generateContent(asked)).text);
for await (const chunk of await client.models.generateContentStream(asked)) process.stdout.write(chunk.text);
console.log();
