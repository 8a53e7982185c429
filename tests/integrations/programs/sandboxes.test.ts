import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { EgressClient, isEgressError } from "egress-client";

const egress = new EgressClient();

before(async () => {
  await egress.create({ name: "kept", labels: { team: "a" }, env: { CI: "1" } });
});

after(async () => {
  for (const { name } of await egress.list()) await egress.sandbox(name).delete();
  egress.close();
});

test("the server says what it is", async () => {
  const about = await egress.about();
  assert.equal(about.kind, "namespace");
});

test("the same settings find the same sandbox, and others are a problem", async () => {
  const again = await egress.create({ name: "kept", labels: { team: "a" }, env: { CI: "1" } });
  assert.equal(again.name, "kept");
  assert.equal((await again.exec("echo $CI")).stdout, "1\n");
  await assert.rejects(egress.create({ name: "kept", env: { CI: "2" } }), (error) => {
    assert.ok(isEgressError(error, "sandbox.differs"));
    assert.equal(error.status, 409);
    assert.match(error.message, /env/);
    assert.match(error.hint, /same settings/);
    return true;
  });
});

test("a sandbox without a name gets one, and ends with delete", async () => {
  const made = await egress.create();
  assert.ok(made.name.length > 0);
  assert.equal((await made.view()).state, "running");
  await made.delete();
  await assert.rejects(egress.get(made.name), (error) => isEgressError(error, "sandbox.not_found"));
  await assert.rejects(made.exec("true"), (error) => isEgressError(error, "sandbox.not_found"));
});

test("sandboxes are listed by their labels", async () => {
  const names = async (labels: Record<string, string>) => (await egress.list(labels)).map((each) => each.name);
  assert.deepEqual(await names({ team: "a" }), ["kept"]);
  assert.deepEqual(await names({ team: "b" }), []);
});

test("the time limits of a sandbox are changed, and its settings still find it", async () => {
  const sandbox = await egress.create({ name: "timed", timeout: 600 });
  assert.ok(((await sandbox.change({ timeout: 1200 })).left ?? 0) > 600);
  await egress.create({ name: "timed", timeout: 600 });
  await sandbox.delete();
});

test("a sandbox is paused and goes on", async () => {
  const sandbox = await egress.get("kept");
  await sandbox.pause();
  assert.equal((await sandbox.view()).state, "paused");
  await sandbox.resume();
  assert.equal((await sandbox.exec(["echo", "on"])).stdout, "on\n");
});

test("a sandbox sleeps until its next use, and its files stay", async () => {
  const sandbox = await egress.create({ name: "sleeper" });
  await sandbox.files.write("kept.txt", "here");
  await sandbox.sleep();
  assert.equal((await sandbox.view()).state, "asleep");
  await sandbox.wake();
  assert.equal((await sandbox.view()).state, "running");
  await sandbox.sleep();
  assert.equal(await sandbox.files.readText("kept.txt"), "here");
  await sandbox.stop();
  assert.equal((await sandbox.start()).state, "running");
  await sandbox.touch();
  await sandbox.delete();
});

test("a sandbox begins with the files of a snapshot", async () => {
  const sandbox = await egress.get("kept");
  await sandbox.files.write("built/answer.txt", "42");
  const view = await sandbox.snapshot("first");
  assert.equal(view.kind, "workspace");
  assert.deepEqual((await egress.listSnapshots()).map((each) => each.name), ["first"]);
  const second = await egress.create({ snapshot: "first" });
  assert.equal(await second.files.readText("built/answer.txt"), "42");
  await second.delete();
  await egress.deleteSnapshot("first");
  assert.deepEqual(await egress.listSnapshots(), []);
});

test("a port is shown to browsers, and withdrawn", async () => {
  const sandbox = await egress.get("kept");
  const shown = await sandbox.expose(8000);
  assert.equal(shown.port, 8000);
  assert.deepEqual(await egress.listPreviews(), [shown]);
  await sandbox.unexpose(8000);
  assert.deepEqual(await egress.listPreviews(), []);
});

test("events are followed from the moment on at which the call returns", async () => {
  const events = await egress.events();
  const sandbox = await egress.create({ name: "short" });
  await sandbox.delete();
  const kinds: string[] = [];
  for await (const event of events) {
    if (event.sandbox === "short") kinds.push(event.kind);
    if (event.sandbox === "short" && event.kind === "removed") break;
  }
  assert.deepEqual(kinds.filter((kind) => kind !== "died"), ["created", "started", "removed"]);
});

test("a repository of a host without rules is denied", async () => {
  const sandbox = await egress.get("kept");
  await assert.rejects(sandbox.clone({ url: "https://other.example.com/a/b.git" }), (error) =>
    isEgressError(error, "git.denied"),
  );
});

test("a call without a method of its own is made by its name", async () => {
  const view = await egress.call("get_sandbox", { parts: { name: "kept" } });
  assert.equal(view.labels["team"], "a");
  await (await egress.get("kept")).openPorts([8443]);
});
