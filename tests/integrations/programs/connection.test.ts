import assert from "node:assert/strict";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { inspect } from "node:util";

import { EgressClient, type EndpointOptions, isEgressError } from "egress-client";

const TOKEN = "made-up-token-4f2a9c1e";
const servers: Server[] = [];

after(() => {
  for (const server of servers) server.close().closeAllConnections();
});

/** A client of a server that answers as a test says. */
async function clientOf(answer: RequestListener): Promise<EgressClient> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return new EgressClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: TOKEN });
}

const ofType =
  (...types: string[]) =>
  (error: unknown): boolean => {
    assert.ok(isEgressError(error, ...types), inspect(error));
    assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(TOKEN));
    return true;
  };

test("the token goes with every call, and nowhere else", async () => {
  const seen: unknown[] = [];
  const egress = await clientOf((request, response) => {
    seen.push([request.method, request.url, request.headers.authorization]);
    response.setHeader("content-type", "application/json").end('{"sandboxes": []}');
  });
  assert.deepEqual(await egress.list({ "a b": "c&d" }), []);
  assert.deepEqual(seen, [["GET", "/v1/sandboxes?label=a+b%3Dc%26d", `Bearer ${TOKEN}`]]);
  assert.ok(!inspect(egress, { depth: 9, showHidden: true }).includes(TOKEN));
  assert.ok(!JSON.stringify(egress).includes(TOKEN));
});

test("a name cannot lead to another call", async () => {
  const seen: unknown[] = [];
  const egress = await clientOf((request, response) => {
    seen.push(request.url);
    response.writeHead(204).end();
  });
  await egress.sandbox("../snapshots/x?y#z").delete();
  assert.deepEqual(seen, ["/v1/sandboxes/..%2Fsnapshots%2Fx%3Fy%23z"]);
});

test("a redirect is not followed", async () => {
  let isFollowed = false;
  const other = createServer(() => (isFollowed = true));
  servers.push(other);
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
  const egress = await clientOf((_, response) => response.writeHead(307, { location }).end());
  await assert.rejects(egress.about(), ofType("client.protocol"));
  assert.equal(isFollowed, false);
});

test("an answer that is not of the API is an error", async () => {
  const page = await clientOf((_, response) => response.end("<html>"));
  await assert.rejects(page.about(), ofType("client.protocol"));
  for (const body of ["<html>", "{}", "null", '{"type": 1, "message": 2}', "x".repeat(100_000)]) {
    const failing = await clientOf((_, response) => response.writeHead(502).end(body));
    await assert.rejects(failing.about(), (error) => ofType("client.protocol")(error) && Object(error).status === 502);
  }
});

test("a problem of a type that this version does not know keeps its type", async () => {
  const body = '{"type": "moon.full", "message": "not today", "hint": "wait", "more": 1}';
  const egress = await clientOf((_, response) => response.writeHead(418).end(body));
  await assert.rejects(egress.about(), { type: "moon.full", message: "not today", hint: "wait", status: 418 });
});

test("an answer that is cut is an error", async () => {
  const egress = await clientOf((_, response) => {
    response.writeHead(200, { "content-length": 100 }).write("{");
    setImmediate(() => response.destroy());
  });
  await assert.rejects(egress.about(), ofType("client.connection"));
});

test("a stream of a command that ends without its last event is an error", async () => {
  const egress = await clientOf((_, response) => response.end('event: stdout\ndata: {"text":"x"}\n\n'));
  const events = await egress.sandbox("one").stream("true");
  await assert.rejects(async () => {
    for await (const event of events) assert.equal(event.kind, "stdout");
  }, ofType("client.connection"));
});

test("an event without an end is given up", async () => {
  const egress = await clientOf((_, response) => {
    response.write("data: ");
    const more = (): void => void (response.destroyed || response.write("x".repeat(65_536), more));
    more();
  });
  await assert.rejects(async () => {
    for await (const _ of await egress.events()) assert.fail();
  }, ofType("client.protocol"));
});

test("nobody who listens is an error that says what to do", async () => {
  const egress = new EgressClient({ socketPath: "/nowhere/sandboxes.sock" });
  await assert.rejects(egress.about(), (error) => {
    assert.ok(isEgressError(error, "client.connection"));
    assert.match(error.message, /\/nowhere\/sandboxes\.sock.*ENOENT/);
    assert.match(error.hint, /egress up/);
    return true;
  });
});

test("a closed client fails calls that are under way", async () => {
  let egress: EgressClient | undefined;
  egress = await clientOf(() => egress?.close());
  await assert.rejects(egress.about(), ofType("client.connection"));
});

const REFUSED: Record<string, EndpointOptions> = {
  "no URL": { url: "boxes", token: TOKEN },
  "another scheme": { url: "ftp://127.0.0.1", token: TOKEN },
  "a path": { url: "https://boxes.example.com/api", token: TOKEN },
  "a user": { url: `https://${TOKEN}@boxes.example.com`, token: TOKEN },
  "no TLS": { url: "http://boxes.example.com", token: TOKEN },
  "a name that only looks like loopback": { url: "http://127.0.0.1.example.com", token: TOKEN },
  "no token": { url: "https://boxes.example.com", token: "" },
  "a token with a line end": { url: "https://boxes.example.com", token: `${TOKEN}\n` },
  "a token that is too long": { url: "https://boxes.example.com", token: "x".repeat(1025) },
};

for (const [what, options] of Object.entries(REFUSED)) {
  test(`an address is refused for ${what}`, () => {
    assert.throws(() => new EgressClient(options), ofType("client.settings"));
  });
}

for (const url of ["http://127.0.0.1:8700", "http://localhost:8700/", "http://[::1]:8700", "https://boxes.example.com"]) {
  test(`an address is accepted: ${url}`, () => new EgressClient({ url, token: TOKEN }).close());
}
