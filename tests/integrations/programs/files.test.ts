import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, before, test } from "node:test";

import { type ChangeView, EgressClient, isEgressError, type Sandbox } from "egress-client";

const egress = new EgressClient();
let sandbox: Sandbox;

before(async () => {
  sandbox = await egress.create({ name: "files" });
});

after(async () => {
  await sandbox.delete();
  egress.close();
});

const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, value) => value);

test("bytes and texts come back as they were", async () => {
  await sandbox.files.write("a/b/bytes", EVERY_BYTE);
  assert.deepEqual(new Uint8Array(await sandbox.files.read("a/b/bytes")), EVERY_BYTE);
  await sandbox.files.write("text", "grün\n", { mode: "640" });
  assert.equal(await sandbox.files.readText("text"), "grün\n");
  assert.equal((await sandbox.files.stat("text")).mode, "640");
  await sandbox.files.write("empty", "");
  assert.equal((await sandbox.files.read("empty")).length, 0);
});

test("a name may hold what a URL gives another meaning", async () => {
  const name = "a b&c=d?e#f%2e+ü";
  await sandbox.files.write(name, "odd");
  assert.equal(await sandbox.files.readText(name), "odd");
  assert.ok((await sandbox.files.list(".")).some((entry) => entry.name === name));
});

test("streams carry more than one piece, in both directions", async () => {
  const size = 5_000_000;
  async function* pieces() {
    for (let sent = 0; sent < size; sent += 100_000) yield Buffer.alloc(100_000, "x");
  }
  await sandbox.files.write("large", pieces());
  assert.equal((await sandbox.files.stat("large")).size, size);
  assert.equal((await buffer(await sandbox.files.readStream("large"))).length, size);
  await sandbox.files.write("large", Buffer.alloc(size, "y"));
  assert.equal((await sandbox.files.read("large"))[size - 1], "y".charCodeAt(0));
});

test("a part of a file is read by its place", async () => {
  await sandbox.files.write("digits", "0123456789");
  assert.equal(await sandbox.files.readText("digits", { offset: 3, length: 4 }), "3456");
  assert.equal(await sandbox.files.readText("digits", { offset: 8 }), "89");
  await assert.rejects(sandbox.files.read("digits", { offset: 10 }), (error) =>
    isEgressError(error, "range.unsatisfiable"),
  );
  await assert.rejects(sandbox.files.read("digits", { offset: -1 }), (error) => isEgressError(error, "client.settings"));
});

test("a file that is longer than the caller accepts is not read", async () => {
  await sandbox.files.write("long", Buffer.alloc(1000));
  await assert.rejects(sandbox.files.read("long", { maxBytes: 999 }), (error) =>
    isEgressError(error, "client.too_large"),
  );
});

test("a source that fails leaves the file as it was, and is the error", async () => {
  await sandbox.files.write("kept", "before");
  const broken = new Error("the source broke");
  async function* pieces() {
    yield Buffer.from("after");
    throw broken;
  }
  await assert.rejects(sandbox.files.write("kept", pieces()), broken);
  assert.equal(await sandbox.files.readText("kept"), "before");
});

test("a refusal comes before a large body is sent", async () => {
  const nobody = egress.sandbox("nobody");
  let isAsked = false;
  async function* pieces() {
    isAsked = true;
    yield Buffer.alloc(1_000_000);
  }
  await assert.rejects(nobody.files.write("x", pieces()), (error) => isEgressError(error, "sandbox.not_found"));
  await assert.rejects(sandbox.files.write("../x", Buffer.alloc(5_000_000)), (error) =>
    isEgressError(error, "path.outside"),
  );
  assert.equal(isAsked, false);
});

test("folders are made, listed, renamed and removed", async () => {
  await sandbox.files.mkdir("one/two");
  await sandbox.files.write("one/two/.hidden", "x");
  assert.deepEqual((await sandbox.files.list("one/two")).map((entry) => entry.name), [".hidden"]);
  await sandbox.files.rename("one/two", "one/three");
  assert.equal(await sandbox.files.exists("one/two"), false);
  assert.equal((await sandbox.files.stat("one/three")).kind, "folder");
  await assert.rejects(sandbox.files.remove("one"), (error) => isEgressError(error, "path.kind"));
  await sandbox.files.remove("one", { recursive: true });
  assert.equal(await sandbox.files.exists("one"), false);
  await assert.rejects(sandbox.files.mkdir("no/such", { parents: false }), (error) =>
    isEgressError(error, "path.not_found"),
  );
});

test("changes are followed from the moment on at which the call returns", async () => {
  await sandbox.files.mkdir("watched");
  const changes = await sandbox.files.watch("watched", { interval: 0.05 });
  await sandbox.files.write("watched/new", "x");
  let first: ChangeView | undefined;
  for await (const change of changes) {
    first = change;
    break;
  }
  assert.deepEqual([first?.kind, first?.path.endsWith("watched/new")], ["made", true]);
});

test("a tar archive goes in and comes out", async () => {
  const folder = mkdtempSync(join(tmpdir(), "egress-client-"));
  writeFileSync(join(folder, "answer.txt"), "42");
  const archive = execFileSync("tar", ["-C", folder, "-c", "."]);
  writeFileSync(join(folder, "answer.tar"), archive);
  await sandbox.files.mkdir("/workspace/unpacked");
  await sandbox.putArchive("/workspace/unpacked", createReadStream(join(folder, "answer.tar")));
  assert.equal(await sandbox.files.readText("unpacked/answer.txt"), "42");
  const out = await buffer(await sandbox.getArchive("/workspace/unpacked/answer.txt"));
  assert.equal(execFileSync("tar", ["-xO"], { input: out }).toString(), "42");
  await assert.rejects(sandbox.getArchive("/workspace/nothing"), (error) => isEgressError(error, "path.not_found"));
  await assert.rejects(sandbox.putArchive("/workspace", Readable.from([Buffer.from("no archive")])), (error) =>
    isEgressError(error),
  );
});
