import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";

import { type AttachedTerminal, EgressClient, type InteractiveCommand, isEgressError, type Sandbox } from "egress-client";

const egress = new EgressClient();
let sandbox: Sandbox;

before(async () => {
  sandbox = await egress.create({ name: "interactive" });
});

after(async () => {
  await sandbox.delete();
  egress.close();
});

/** Read a command to its end, or until its output has a text. */
async function read(command: InteractiveCommand, until?: string): Promise<{ text: string; status?: number }> {
  let text = "";
  for await (const event of command) {
    if (event.kind === "exit") return { text, status: event.exit_code };
    text += Buffer.from(event.data).toString();
    if (until !== undefined && text.includes(until)) return { text };
  }
  assert.fail("an end without a result");
}

test("a program is typed to while it runs", async () => {
  const command = await sandbox.open(["sh", "-c", "while read line; do echo got $line; done; exit 4"]);
  await command.write("one\n");
  await command.write(Buffer.from("two\n"));
  await command.closeInput();
  assert.deepEqual(await read(command), { text: "got one\ngot two\n", status: 4 });
  await command.write("three\n");
});

test("a large input and a large output go on side by side", async () => {
  const size = 3_000_000;
  const command = await sandbox.open(["cat"]);
  const writing = command.write(Buffer.alloc(size, "x")).then(() => command.closeInput());
  const { text, status } = await read(command);
  await writing;
  assert.deepEqual([text.length, status], [size, 0]);
});

test("a program has a terminal, and learns its size", async () => {
  const shell = "trap 'stty size; exit 6' WINCH; stty size; while :; do sleep 0.05; done";
  const command = await sandbox.open(["sh", "-c", shell], { terminal: { columns: 100, rows: 30 } });
  let text = "";
  for await (const event of command) {
    if (event.kind === "exit") {
      assert.equal(event.exit_code, 6);
      break;
    }
    text += Buffer.from(event.data).toString();
    if (text.includes("30 100")) await command.resize(90, 20);
  }
  assert.match(text, /30 100\r\n20 90\r\n/);
});

test("a program that is ended says so, and its errors have a channel of their own", async () => {
  const command = await sandbox.open(["sh", "-c", "echo careful >&2; sleep 60"], { stdin: false });
  const kinds: string[] = [];
  for await (const event of command) {
    kinds.push(event.kind);
    if (event.kind === "stderr") await command.kill(0.5);
    if (event.kind === "exit") assert.notEqual(event.exit_code, 0);
  }
  assert.deepEqual(kinds, ["stderr", "exit"]);
});

/** A program that writes a file when it is asked to end. */
const NOTICING = (file: string) => ["sh", "-c", `trap 'touch ${file}; exit' TERM; echo on; while :; do sleep 0.05; done`];

test("leaving the loop, closing and a signal end the program", async () => {
  await read(await sandbox.open(NOTICING("left")), "on");
  const closed = await sandbox.open(NOTICING("closed"));
  await assert.rejects(
    async () => {
      for await (const _ of closed) closed.close();
    },
    (error) => isEgressError(error, "client.connection"),
  );
  const leaving = new AbortController();
  const aborted = await sandbox.open(NOTICING("aborted"), { signal: leaving.signal });
  await assert.rejects(
    async () => {
      for await (const _ of aborted) leaving.abort();
    },
    { name: "AbortError" },
  );
  for (const file of ["left", "closed", "aborted"]) {
    while (!(await sandbox.files.exists(file))) continue;
  }
});

test("a terminal is left and found again, and its process goes on", async () => {
  const process = await sandbox.processes.start(["sh"], { terminal: { columns: 80, rows: 24 } });
  const screen = async (terminal: AttachedTerminal, until: string): Promise<string> => {
    let text = "";
    for await (const event of terminal) {
      if (event.kind === "stdout") text += Buffer.from(event.data).toString();
      if (text.includes(until)) return text;
    }
    return text;
  };
  const first = await process.attach({ columns: 100, rows: 30 });
  await first.write("stty size; echo ma''rk\n");
  assert.match(await screen(first, "mark\r\n"), /30 100/);
  const second = await process.attach();
  await second.resize(90, 20);
  await second.write("stty size; exit 7\n");
  const kinds = new Set<string>();
  for await (const event of second) {
    kinds.add(event.kind);
    if (event.kind === "ended") assert.equal(event.process.exit_code, 7);
  }
  assert.deepEqual(kinds, new Set(["attached", "stdout", "ended"]));
  const plain = await sandbox.processes.start("sleep 60");
  await assert.rejects(plain.attach(), (error) => isEgressError(error) && error.status >= 400);
  await plain.delete();
});

test("a sandbox that is not there, or ends, is an error", async () => {
  await assert.rejects(egress.sandbox("nobody").open(["true"]), (error) => isEgressError(error, "sandbox.not_found"));
  await assert.rejects(sandbox.open([]), (error) => isEgressError(error));
  const short = await egress.create({ name: "dying" });
  const command = await short.open(["sh", "-c", "echo on; sleep 60"]);
  await assert.rejects(
    async () => {
      for await (const _ of command) await short.delete();
    },
    (error) => isEgressError(error, "sandbox.died"),
  );
});

const SERVER = `
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).upper()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
HTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
`;

test("a port in the sandbox is a stream", async () => {
  const server = await sandbox.processes.start(["python3", "-c", SERVER]);
  await server.wait({ port: 8123, timeout: 60 });
  const body = "x".repeat(300_000);
  const connection = await sandbox.dial(8123);
  const answer = await new Promise<string>((resolve, reject) => {
    const asking = request({ method: "POST", createConnection: () => connection, headers: { connection: "close" } });
    asking.on("error", reject).on("response", async (response) => {
      let text = "";
      for await (const piece of response) text += String(piece);
      resolve(text);
    });
    asking.end(body);
  });
  assert.equal(answer, body.toUpperCase());
  await server.delete();
  await assert.rejects(sandbox.dial(8124), (error) => isEgressError(error, "port.closed"));
});
