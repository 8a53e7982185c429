import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { EgressClient, isEgressError, type Sandbox, type SessionCommandEvent } from "egress-client";

const egress = new EgressClient();
let sandbox: Sandbox;

before(async () => {
  sandbox = await egress.create({ name: "sessions" });
});

after(async () => {
  await sandbox.delete();
  egress.close();
});

test("a session keeps its folder and variables, for any client", async () => {
  const session = await sandbox.sessions.open("work", { env: { DEBUG: "1" } });
  await session.exec("mkdir -p src && cd src && NEXT=2");
  const again = await sandbox.sessions.open("work");
  const result = await again.exec("echo $DEBUG$NEXT; pwd");
  assert.deepEqual([result.stdout, result.state_kept], ["12\n/workspace/src\n", true]);
  assert.equal((await session.view()).state, "idle");
  assert.deepEqual((await sandbox.sessions.list()).map((each) => each.id), ["work"]);
  await session.delete();
  await assert.rejects(session.exec("true"), (error) => isEgressError(error, "session.not_found"));
});

test("its output comes as it is made, and a signal ends the lines", async () => {
  const session = await sandbox.sessions.open("streamed");
  const seen: SessionCommandEvent[] = [];
  for await (const event of await session.stream("echo one; false")) seen.push(event);
  assert.deepEqual(seen[0], { kind: "stdout", text: "one\n" });
  const last = seen.at(-1);
  assert.ok(last?.kind === "exit");
  assert.deepEqual([last.exit_code, last.state_kept], [1, true]);
  const leaving = new AbortController();
  await assert.rejects(
    async () => {
      for await (const _ of await session.stream("echo on; sleep 600", { signal: leaving.signal })) leaving.abort();
    },
    { name: "AbortError" },
  );
  // It waits for the end of the lines before it.
  assert.equal((await session.exec("echo next")).stdout, "next\n");
});
