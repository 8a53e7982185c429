import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { type CommandEvent, EgressClient, isEgressError, type Sandbox } from "egress-client";

const egress = new EgressClient();
let sandbox: Sandbox;

before(async () => {
  sandbox = await egress.create({ name: "commands" });
});

after(async () => {
  await sandbox.delete();
  egress.close();
});

/** Wait until no process of the sandbox has this word on its command line. */
async function ended(word: string): Promise<void> {
  // The brackets keep the search from finding itself.
  const pattern = `[${word[0]}]${word.slice(1)}`;
  const search = `for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -c '${pattern}'`;
  while ((await sandbox.exec(search)).stdout.trim() !== "0") continue;
}

test("a command has output, errors and any status", async () => {
  const result = await sandbox.exec("echo out; echo careful >&2; exit 3");
  const { exit_code, stdout, stderr, timed_out, truncated } = result;
  assert.deepEqual(
    { exit_code, stdout, stderr, timed_out, truncated },
    { exit_code: 3, stdout: "out\n", stderr: "careful\n", timed_out: false, truncated: false },
  );
});

test("words are no line of a shell, and settings are passed on", async () => {
  assert.equal((await sandbox.exec(["echo", "$HOME; exit 3"])).stdout, "$HOME; exit 3\n");
  const result = await sandbox.exec("pwd; echo $CI; cat", { cwd: "/tmp", env: { CI: "1" }, input: "grün" });
  assert.equal(result.stdout, "/tmp\n1\ngrün");
});

test("a timeout ends a command with the status 124", async () => {
  const result = await sandbox.exec("sleep 60", { timeout: 0.2 });
  assert.equal(result.exit_code, 124);
  assert.equal(result.timed_out, true);
});

test("a signal ends the process group, and its reason is the error", async () => {
  const leaving = new AbortController();
  const ready = await sandbox.stream("echo ready; sleep 4141 & sleep 4141", { signal: leaving.signal });
  const reason = new Error("no longer wanted");
  await assert.rejects(async () => {
    for await (const event of ready) {
      assert.deepEqual(event, { kind: "stdout", text: "ready\n" });
      leaving.abort(reason);
    }
  }, reason);
  await ended("4141");
});

test("a signal ends a command whose result is awaited", async () => {
  const leaving = new AbortController();
  const file = "began";
  const running = sandbox.exec(`touch ${file}; sleep 4242 & sleep 4242`, { signal: leaving.signal });
  while (!(await sandbox.files.exists(file))) continue;
  leaving.abort();
  await assert.rejects(running, { name: "AbortError" });
  await ended("4242");
});

test("a signal that came before is heard before anything is sent", async () => {
  await assert.rejects(sandbox.exec("touch never", { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(await sandbox.files.exists("never"), false);
});

test("output comes as it is made, and then the end", async () => {
  const seen: CommandEvent[] = [];
  for await (const event of await sandbox.stream("echo one; exit 4")) seen.push(event);
  assert.deepEqual(seen[0], { kind: "stdout", text: "one\n" });
  const last = seen.at(-1);
  assert.ok(last?.kind === "exit");
  assert.equal(last.exit_code, 4);
});

test("leaving the loop ends the process group", async () => {
  for await (const event of await sandbox.stream("echo ready; sleep 4343 & sleep 4343")) {
    assert.equal(event.kind, "stdout");
    break;
  }
  await ended("4343");
});

test("a large output arrives whole, as bytes too", async () => {
  const command = "head -c 3000000 /dev/zero; echo end";
  const whole = await sandbox.exec(command);
  assert.equal(whole.stdout.length, 3_000_004);
  let size = 0;
  for await (const event of await sandbox.stream(command, { encoding: "base64" })) {
    if (event.kind === "stdout") size += Buffer.from(event.base64 ?? "", "base64").length;
  }
  assert.equal(size, 3_000_004);
});

test("a command without words is refused before it begins", async () => {
  const refused = (error: unknown) => isEgressError(error) && error.status >= 400;
  await assert.rejects(sandbox.exec([]), refused);
  await assert.rejects(sandbox.stream([]), refused);
});

test("the end of the sandbox ends a stream with its reason", async () => {
  const short = await egress.create({ name: "dying" });
  const events = await short.stream("echo ready; sleep 60");
  await assert.rejects(
    async () => {
      for await (const event of events) {
        assert.equal(event.kind, "stdout");
        await short.delete();
      }
    },
    (error) => isEgressError(error, "sandbox.died"),
  );
});
