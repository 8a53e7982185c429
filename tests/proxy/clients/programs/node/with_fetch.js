// Node's own fetch and WebSocket, asked by a command line (see README.md). Nothing here names the proxy.

const { createReadStream } = require("node:fs");

async function main(verb, url, file) {
  if (verb === "websocket") return say(new WebSocket(url));
  const sent = verb === "put" ? { method: "PUT", body: createReadStream(file), duplex: "half" } : {};
  const answer = await fetch(url, sent);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  for await (const part of answer.body) process.stdout.write(part);
}

function say(socket) {
  return new Promise((done, fail) => {
    socket.onopen = () => socket.send("hello from the sandbox");
    socket.onmessage = ({ data }) => (console.log(data), socket.close());
    socket.onclose = done;
    socket.onerror = () => fail(new Error("the WebSocket failed"));
  });
}

main(...process.argv.slice(2)).catch((error) => (console.error(error), (process.exitCode = 1)));
