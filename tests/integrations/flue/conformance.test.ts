/** The nine methods of a Flue sandbox, as a table: on Egress, and on Flue's own local sandbox, which says what is right. */

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";

import { type Sandbox, SandboxDiedError, type SandboxFactory } from "@flue/runtime";
import { local } from "@flue/runtime/node";
import { EgressClient } from "egress-client";

import { egress, sandboxName } from "./sandboxes/egress.ts";

const client = new EgressClient();
const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, value) => value);

const FACTORIES: Record<string, () => SandboxFactory> = {
  egress: () => egress(),
  local: () => local({ cwd: mkdtempSync(join(tmpdir(), "flue-")) }),
};

const ROWS: Record<string, (box: Sandbox) => Promise<void>> = {
  async readFile(box) {
    await box.writeFile("text", "grün\n");
    assert.equal(await box.readFile("text"), "grün\n");
    assert.equal(await box.readFile(box.resolvePath("text")), "grün\n");
    await assert.rejects(box.readFile("missing"));
    await assert.rejects(box.readFile("."));
  },
  async readFileBuffer(box) {
    await box.writeFile("bytes", EVERY_BYTE);
    assert.deepEqual(new Uint8Array(await box.readFileBuffer("bytes")), EVERY_BYTE);
    await assert.rejects(box.readFileBuffer("missing"));
  },
  async writeFile(box) {
    await box.writeFile("new/folders/file", "one");
    await box.writeFile("new/folders/file", "two");
    assert.equal(await box.readFile("new/folders/file"), "two");
    await assert.rejects(box.writeFile("new/folders", "a folder is in the way"));
  },
  async stat(box) {
    await box.writeFile("facts", "12345");
    await box.exec("ln -s facts link; ln -s . here; ln -s nowhere dangling");
    const file = await box.stat("facts");
    assert.deepEqual([file.isFile, file.isDirectory, file.isSymbolicLink, file.size], [true, false, false, 5]);
    assert.ok(file.mtime && Math.abs(file.mtime.getTime() - Date.now()) < 3_600_000);
    const link = await box.stat("link");
    assert.deepEqual([link.isFile, link.isSymbolicLink, link.size], [true, true, 5]);
    const here = await box.stat("here");
    assert.deepEqual([here.isDirectory, here.isSymbolicLink], [true, true]);
    await assert.rejects(box.stat("missing"));
    await assert.rejects(box.stat("dangling"));
  },
  async readdir(box) {
    await box.writeFile("folder/.hidden", "");
    await box.writeFile("folder/a b", "");
    await box.mkdir("folder/below");
    assert.deepEqual((await box.readdir("folder")).sort(), [".hidden", "a b", "below"]);
    await assert.rejects(box.readdir("folder/.hidden"));
    await assert.rejects(box.readdir("missing"));
  },
  async exists(box) {
    await box.writeFile("there/file", "");
    assert.equal(await box.exists("there/file"), true);
    assert.equal(await box.exists("there"), true);
    assert.equal(await box.exists("not/there"), false);
    assert.equal(await box.exists("there/file/below"), false);
    assert.equal(await box.exists("no\0name"), false);
  },
  async mkdir(box) {
    await box.mkdir("one");
    await assert.rejects(box.mkdir("one"));
    await assert.rejects(box.mkdir("two/three"));
    await box.mkdir("two/three", { recursive: true });
    await box.mkdir("two/three", { recursive: true });
    assert.equal((await box.stat("two/three")).isDirectory, true);
    await box.writeFile("two/file", "");
    await assert.rejects(box.mkdir("two/file", { recursive: true }));
  },
  async rm(box) {
    await box.writeFile("gone/file", "");
    await box.mkdir("empty");
    await box.exec("ln -s gone to-folder; ln -s nowhere to-nothing");
    await assert.rejects(box.rm("gone"));
    await assert.rejects(box.rm("gone", { force: true }));
    await assert.rejects(box.rm("empty"));
    await box.rm("to-folder");
    await box.rm("to-nothing");
    assert.deepEqual((await box.readdir("gone")), ["file"], "a link is removed, and not what it leads to");
    await box.rm("gone", { recursive: true });
    assert.equal(await box.exists("gone"), false);
    await assert.rejects(box.rm("gone"));
    await assert.rejects(box.rm("gone", { recursive: true }));
    await box.rm("gone", { force: true });
    await box.rm("gone", { recursive: true, force: true });
  },
  async exec(box) {
    const result = await box.exec("echo out; echo careful >&2; exit 3");
    assert.deepEqual(result, { stdout: "out\n", stderr: "careful\n", exitCode: 3 });
    await box.mkdir("inner");
    const settings = { cwd: "inner", env: { CI: "1" } };
    assert.equal((await box.exec('basename "$PWD"; echo $CI', settings)).stdout, "inner\n1\n");
    assert.equal((await box.exec("[[ a == a ]] && echo bash")).stdout, "bash\n");
    const late = await box.exec("echo before; sleep 60", { timeoutMs: 300 });
    assert.equal(late.exitCode, 124);
    await assert.rejects(box.exec("touch never", { signal: AbortSignal.abort() }), { name: "AbortError" });
    assert.equal(await box.exists("never"), false);
    const leaving = new AbortController();
    const running = box.exec("touch began; while :; do sleep 0.05; date +%N > alive; done", { signal: leaving.signal });
    while (!(await box.exists("alive"))) continue;
    leaving.abort(new Error("no longer wanted"));
    await assert.rejects(running, { name: "AbortError" });
    // The command is over: what it writes again and again stays removed.
    await box.exec("until rm -f alive; sleep 0.3; [ ! -e alive ]; do :; done");
  },
};

for (const [name, factory] of Object.entries(FACTORIES)) {
  describe(name, () => {
    for (const [method, row] of Object.entries(ROWS)) {
      test(method, async () => row(await factory().createSandbox({ id: method })));
    }
  });
}

after(async () => {
  for (const { name } of await client.list()) await client.sandbox(name).delete();
  client.close();
});

test("the same instance finds its sandbox again, and another one has its own", async () => {
  const first = await egress().createSandbox({ id: "one" });
  await first.writeFile("kept", "here");
  const again = await egress().createSandbox({ id: "one" });
  assert.equal(await again.readFile("kept"), "here");
  const other = await egress().createSandbox({ id: "two" });
  assert.equal(await other.exists("kept"), false);
  const agent = await egress({ prefix: "reviewer" }).createSandbox({ id: "one" });
  assert.equal(await agent.exists("kept"), false);
});

test("an id cannot name a sandbox of somebody else", async () => {
  await client.create({ name: "builder" });
  const ids = ["builder", "../builder", "x".repeat(10_000), "", "ü\0", "flue-1"];
  const names = ids.map((id) => sandboxName("flue", id));
  assert.equal(new Set(names).size, ids.length);
  for (const name of names) assert.match(name, /^flue-[0-9a-f]{32}$/);
  const box = await egress().createSandbox({ id: "builder" });
  await box.writeFile("file", "");
  assert.equal(await client.sandbox("builder").files.exists("file"), false);
});

test("an idle sandbox sleeps, and its settings are the ones that were asked for", async () => {
  await egress({ settings: { labels: { team: "a" } } }).createSandbox({ id: "labelled" });
  const [view] = await client.list({ team: "a" });
  assert.deepEqual([view?.on_idle, view?.idle_timeout], ["sleep", 1800]);
  const bounded = egress({ settings: { idle_timeout: null, timeout: 60, on_idle: "delete" } });
  await bounded.createSandbox({ id: "bounded" });
  const found = await client.sandbox(sandboxName("flue", "bounded")).view();
  assert.deepEqual([found.on_idle, found.idle_timeout, found.timeout], ["delete", null, 60]);
});

test("the end of the sandbox ends every call that waits, and later ones", async () => {
  const box = await egress().createSandbox({ id: "dying" });
  const running = box.exec("touch began; sleep 600");
  const died = (operation: string) => (error: unknown) => {
    assert.ok(error instanceof SandboxDiedError);
    assert.match(error.message, new RegExp(operation));
    return true;
  };
  const outcome = assert.rejects(running, died("exec"));
  while (!(await box.exists("began"))) continue;
  await client.sandbox(sandboxName("flue", "dying")).delete();
  await outcome;
  await assert.rejects(box.exec("true"), died("exec"));
  await assert.rejects(box.readFile("began"), died("readFile"));
  assert.equal(await box.exists("began"), false);
});

test("a server that does not answer means the end of the sandbox too", async () => {
  const nowhere = egress({ socketPath: "/nowhere/sandboxes.sock" });
  await assert.rejects(nowhere.createSandbox({ id: "one" }), { type: "client.connection" });
});

test("a command that takes too long says how long it had", async () => {
  const box = await egress().createSandbox({ id: "exec" });
  const result = await box.exec("echo before; sleep 60", { timeoutMs: 300 });
  assert.deepEqual(result, { stdout: "before\n", stderr: "the command was ended after 300 ms\n", exitCode: 124 });
});

test("output that is too long is cut, and says so", async () => {
  const box = await egress().createSandbox({ id: "exec" });
  const result = await box.exec("head -c 6000000 /dev/zero | tr '\\0' x");
  assert.ok(result.stdout.length < 6_000_000);
  assert.match(result.stderr, /its rest is missing/);
});
