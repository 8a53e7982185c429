import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { type AuditLine, EgressClient, type EventStream, isEgressError, type Sandbox } from "egress-client";

const egress = new EgressClient();
let sandbox: Sandbox;
const FETCH = "curl -s -o /dev/null -w '%{http_code}' https://other.example.com/";

before(async () => {
  sandbox = await egress.create({ name: "ruled" });
});

after(async () => {
  await sandbox.delete();
  egress.close();
});

/** The next lines of a log. */
async function take(lines: EventStream<AuditLine>, count: number): Promise<AuditLine[]> {
  const found: AuditLine[] = [];
  for await (const line of lines) {
    if (found.push(line) === count) break;
  }
  return found;
}

test("a grant is made, listed and taken back, within what is delegated", async () => {
  const settings = { kind: "allow", host: "eu.files.example.com", methods: ["GET"], ttl: 600 } as const;
  const grant = await sandbox.policy.grant(settings);
  assert.equal(grant.delegation, "downloads");
  const view = await sandbox.policy.view();
  assert.deepEqual(view.grants.map((each) => each.id), [grant.id]);
  assert.deepEqual(view.delegations.map((each) => each.id), ["downloads"]);
  await sandbox.policy.undo(grant.id);
  assert.deepEqual((await sandbox.policy.view()).grants, []);
  await assert.rejects(sandbox.policy.grant({ ...settings, host: "evil.example.org" }), (error) =>
    isEgressError(error, "grant.not_delegated"),
  );
});

test("a request is explained without being sent", async () => {
  const explained = await sandbox.policy.explain({ method: "POST", url: "https://api.example.com/v1/user" });
  assert.deepEqual([explained.verdict, explained.code], ["deny", "rule.none"]);
});

test("the lines of a sandbox are read page by page, and followed", async () => {
  const recorded = await sandbox.followAudit({ verdict: "deny" });
  for (let count = 0; count < 3; count++) assert.equal((await sandbox.exec(FETCH)).stdout, "403");
  // A line follows its exchange, so it may come after the answer.
  await take(recorded, 3);
  const query = { verdict: "deny", host: "other.example.com", limit: 2 } as const;
  const first = await sandbox.audit(query);
  assert.equal(first.lines.length, 2);
  assert.deepEqual(new Set(first.lines.map((line) => line["code"])), new Set(["host.unknown"]));
  const second = await sandbox.audit({ ...query, cursor: first.cursor });
  assert.equal(second.lines.length, 1);
  assert.equal((await egress.log({ sandbox: "ruled", verdict: "deny", host: "other.example.com" })).lines.length, 3);
  assert.deepEqual((await egress.log({ sandbox: "nobody" })).lines, []);

  const following = [await sandbox.followAudit({ verdict: "deny" }), await egress.followLog({ verdict: "deny" })];
  await sandbox.exec(FETCH);
  for (const lines of following) {
    const [found] = await take(lines, 1);
    assert.deepEqual([found?.["sandbox"], found?.["host"]], ["ruled", "other.example.com"]);
  }
});

test("the operator asks the proxy about its rules", async () => {
  const { rules, ready } = await egress.proxy();
  assert.deepEqual([ready, rules.hosts], [true, 1]);
  assert.equal((await egress.reloadRules()).result, "unchanged");
  assert.deepEqual(await egress.listSecrets(), []);
  const wrong = await egress.checkRules("version: 1\nhosts:\n  api.example.com: { alow: all }\n");
  assert.deepEqual([wrong.ok, wrong.total], [false, 1]);
  const explained = await egress.explain({ url: "https://api.example.com/v1/user" });
  assert.equal(explained.verdict, "allow");
});

test("a denied request is told what would allow it", async () => {
  const following = await sandbox.followAudit({ code: "rule.none" });
  await sandbox.exec("curl -s -X POST https://api.example.com/v1/user");
  const [line] = await take(following, 1);
  const suggestion = await egress.suggest(String(line?.["request"]));
  assert.equal(suggestion.code, "rule.none");
  assert.notEqual(suggestion.steps.length, 0);
});
