// ws, asked by a command line (see README.md). It reads no variable: the program hands it an agent.

const { HttpsProxyAgent } = require("https-proxy-agent");
const WebSocket = require("ws");

const [, , verb, url] = process.argv;
if (verb !== "websocket") throw new Error("it speaks WebSocket and nothing else");

const socket = new WebSocket(url, { agent: new HttpsProxyAgent(process.env.HTTPS_PROXY) });
socket.on("open", () => socket.send("hello from the sandbox"));
socket.on("message", (data) => (console.log(data.toString()), socket.close()));
socket.on("unexpected-response", (_, answer) => {
  console.error(`${answer.statusCode} ${answer.statusMessage}`);
  process.exit(1);
});
