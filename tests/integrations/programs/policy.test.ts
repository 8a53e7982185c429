import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { type AuditLine, EgressClient, isEgressError, type Sandbox } from "egress-client";

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
  for (let count = 0; count < 3; count++) assert.equal((await sandbox.exec(FETCH)).stdout, "403");
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
    let found: AuditLine | undefined;
    for await (const line of lines) {
      found = line;
      break;
    }
    assert.deepEqual([found?.["sandbox"], found?.["host"]], ["ruled", "other.example.com"]);
  }
});
