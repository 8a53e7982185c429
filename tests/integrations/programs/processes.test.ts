import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { EgressClient, isEgressError, type OutputEvent, type Sandbox } from "egress-client";

const egress = new EgressClient();
let sandbox: Sandbox;

before(async () => {
  sandbox = await egress.create({ name: "processes" });
});

after(async () => {
  await sandbox.delete();
  egress.close();
});

const text = (data: Uint8Array) => Buffer.from(data).toString("utf8");

test("a process takes input, and is found again by its id", async () => {
  const process = await sandbox.processes.start("echo ready; cat", { stdin: true });
  assert.equal((await process.wait({ log: "ready", timeout: 60 })).state, "running");
  await process.write("hello\n");
  const again = await sandbox.processes.get(process.id);
  await again.write(Buffer.from("bye\n"), { close: true });
  const view = await process.wait();
  assert.deepEqual([view.state, view.exit_code], ["ended", 0]);
  const output = await again.output();
  assert.deepEqual({ ...output, data: text(output.data) }, { data: "ready\nhello\nbye\n", offset: 0, next: 16, first: 0 });
  assert.equal(text((await again.output({ offset: 6 })).data), "hello\nbye\n");
  assert.deepEqual((await sandbox.processes.list()).map((each) => each.id), [process.id]);
  await process.delete();
  await assert.rejects(process.view(), (error) => isEgressError(error, "process.not_found"));
});

test("an output is followed to its end, also of errors", async () => {
  const process = await sandbox.processes.start(["sh", "-c", "echo one; echo two >&2"]);
  const seen: OutputEvent[] = [];
  for await (const event of await process.follow({ offset: 0 })) seen.push(event);
  assert.deepEqual(seen.map((each) => each.kind), ["output", "end"]);
  assert.equal(seen[0]?.text, "one\n");
  assert.equal(seen[1]?.process?.state, "ended");
  const errors = await process.output({ stream: "stderr" });
  assert.equal(text(errors.data), "two\n");
  await process.delete();
});

test("a follower that leaves does not end the process, and another goes on from its offset", async () => {
  const process = await sandbox.processes.start("echo one; cat; echo end", { stdin: true });
  let next = 0;
  for await (const event of await process.follow()) {
    next = event.next;
    break;
  }
  assert.equal((await process.view()).state, "running");
  await process.write("two\n", { close: true });
  let rest = "";
  for await (const event of await process.follow({ offset: next })) rest += event.text ?? "";
  assert.equal(rest, "two\nend\n");
  await process.delete();
});

test("a process gets signals, and is ended with its children", async () => {
  const trapping = "trap 'echo hup; exit 5' HUP; echo ready; while :; do sleep 0.05; done";
  const first = await sandbox.processes.start(trapping);
  await first.wait({ log: "ready", timeout: 60 });
  await first.signal("HUP");
  assert.equal((await first.wait()).exit_code, 5);
  const second = await sandbox.processes.start("sleep 60 & sleep 60");
  await second.kill(0.5);
  assert.notEqual((await second.wait()).exit_code, 0);
  await first.delete();
  await second.delete();
});

test("a wait has an end, and a signal ends it without ending the process", async () => {
  const process = await sandbox.processes.start("sleep 60");
  await assert.rejects(process.wait({ timeout: 0.1 }), (error) => isEgressError(error, "sandbox.timeout"));
  const leaving = new AbortController();
  const waiting = process.wait({ signal: leaving.signal });
  leaving.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  assert.equal((await process.view()).state, "running");
  await process.delete();
});
