"""Node's own fetch works through the proxy, by a name that leads there and by CONNECT.

Whether `fetch` reads the proxy from the environment depends on the version of Node. In a sandbox it does
not have to: every allowed name leads to the proxy, which is what `dns.lookup` stands for here. Clients
that want to see CONNECT bring a connector of their own, as undici's ProxyAgent does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients.client import PROGRAMS, Client, calling, printed
from tests.proxy.clients.program import Ran, run, started
from tests.proxy.clients.proofs import LARGE
from tests.proxy.clients.scene import MASK, SECRET, WANTED, Scene, certs, through, unlocked
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.proxy_stack import NAME
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

pytestmark = pytest.mark.system("node", "nodejs")

DOOR = "127.0.0.2"

NODE = Client(
    name="fetch of Node below 22.21 and 24.5",
    family="Node",
    version=printed("node", "--version"),
    command=calling("node", PROGRAMS / "node/with_fetch.js"),
    variables={"NODE_EXTRA_CA_CERTS": "{certificate}"},
    program="nothing where names lead to the proxy; elsewhere undici's agent",
    cannot={"variables": "read the proxy from a variable: it goes straight to the host"},
)

TRANSPARENT = f"""
const dns = require("node:dns");
dns.lookup = (name, options, done) =>
  options.all ? done(null, [{{ address: "{DOOR}", family: 4 }}]) : done(null, "{DOOR}", 4);
"""

# The class of fetch's own dispatcher is not exported; an instance of it is there once fetch was used.
EXPLICIT = """
const http = require("node:http"), tls = require("node:tls");
const proxy = new URL(process.env.HTTPS_PROXY);
function connect({ hostname, port }, done) {
  const path = `${hostname}:${port || 443}`, headers = { host: path };
  const asking = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path, headers });
  asking.on("connect", (answer, socket) => {
    const { statusCode, statusMessage } = answer;
    if (statusCode !== 200) return done(new Error(`proxy: ${statusCode} ${statusMessage}`));
    const secure = tls.connect({ socket, servername: hostname, ALPNProtocols: ["http/1.1"] });
    secure.once("secureConnect", () => done(null, secure)).once("error", done);
  }).on("error", done).end();
}
const plain = globalThis.fetch;
globalThis.fetch = async (url, options) => {
  await plain("data:,");
  const { constructor: Agent } = globalThis[Symbol.for("undici.globalDispatcher.1")];
  return plain(url, { ...options, dispatcher: new Agent({ connect }) });
};
"""

SHOW = """
const show = async (answer) => console.log(JSON.stringify({
  status: answer.status, reason: answer.statusText, body: await answer.text(),
  denied: answer.headers.get("egress-denied"),
}));
"""


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene[RawUpstream]]:
    async with through(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as scene:
        await scene.stack.open_transparent(DOOR, scene.port)
        yield scene


def command(scene: Scene[RawUpstream], way: str, script: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """A Node that runs the script with `url` defined, and what its environment holds."""
    begin = f"{way}{SHOW}const url = {json.dumps(scene.url(''))};\n"
    whole = f"{begin}(async () => {{ {script} }})().catch((e) => {{ console.error(e); process.exit(1); }});"
    return ("node", "-e", whole), {"NODE_EXTRA_CA_CERTS": str(scene.ca), "HTTPS_PROXY": scene.stack.url}


async def node(scene: Scene[RawUpstream], way: str, script: str) -> Ran:
    arguments, environment = command(scene, way, script)
    ran = await run(scene.stack.folder, *arguments, environment=environment)
    assert SECRET not in ran.text + ran.err
    return ran


ways = pytest.mark.parametrize(
    ("way", "entry"), [(TRANSPARENT, "sni"), (EXPLICIT, "connect")], ids=["by-name", "by-connect"]
)


@NODE.proves("injected")
@ways
async def test_a_get_is_given_the_credential(scene: Scene[RawUpstream], way: str, entry: str) -> None:
    ran = await node(scene, way, 'await show(await fetch(url + "/small"));')
    answer = json.loads(ran.out or ran.err)
    assert answer["status"] == 200
    assert json.loads(answer["body"])["items"]
    unlocked(scene.upstream, "/small")
    scene.carried(("GET", "/small", 200))
    assert scene.stack.exchanges()[0]["entry"] == entry


@ways
async def test_a_key_that_the_client_needs_to_begin_is_replaced(
    scene: Scene[RawUpstream], way: str, entry: str
) -> None:
    script = 'await show(await fetch(url + "/echo-br", { headers: { authorization: "Bearer stand-in" } }));'
    body = json.loads((await node(scene, way, script)).out)["body"]
    assert f"authorization: Bearer {MASK}\r\n" in body
    assert "stand-in" not in body
    unlocked(scene.upstream, "/echo-br")
    scene.carried(("GET", "/echo-br", 200))


@NODE.proves("large", "upload")
@ways
async def test_bodies_arrive_whole(scene: Scene[RawUpstream], way: str, entry: str) -> None:
    """A string has a length; a stream goes out in chunks."""
    script = f"const body = 'x'.repeat({LARGE}), stream = new Blob([body]).stream();"
    script += """
    await show(await fetch(url + "/sink", { method: "POST", body }));
    await show(await fetch(url + "/sink", { method: "PUT", body: stream, duplex: "half" }));
    console.log((await (await fetch(url + "/bytes?n=" + body.length)).arrayBuffer()).byteLength);
    """
    ran = await node(scene, way, script)
    *sent, received = ran.text.splitlines()
    assert [json.loads(json.loads(line)["body"])["size"] for line in sent] == [LARGE, LARGE], ran.err
    assert received == str(LARGE)
    unlocked(scene.upstream, "/sink", "/sink", "/bytes")
    assert scene.upstream.requests[1].header("transfer-encoding") == "chunked"
    scene.carried(("POST", "/sink", 200), ("PUT", "/sink", 200), ("GET", "/bytes", 200))


@NODE.proves("refusal")
@ways
async def test_a_denied_request_shows_why(scene: Scene[RawUpstream], way: str, entry: str) -> None:
    ran = await node(scene, way, 'await show(await fetch(url + "/private/x", { method: "DELETE" }));')
    answer = json.loads(ran.out)
    (line,) = scene.stack.exchanges()
    command = f"egress log suggest {line['request']}"
    assert (answer["status"], answer["reason"]) == (403, f"Egress rule.denied ({command})")
    assert answer["denied"] == "rule.denied"
    assert json.loads(answer["body"])["error"]["code"] == "rule.denied"
    assert not scene.upstream.links
    scene.denied("rule.denied", ("DELETE", "/private/x", 403))


async def test_a_denied_host_shows_why(scene: Scene[RawUpstream]) -> None:
    ran = await node(scene, EXPLICIT, 'await show(await fetch("https://elsewhere.example.test/"));')
    answer = json.loads(ran.out)
    (line,) = scene.stack.exchanges()
    assert (answer["status"], answer["denied"], line["code"]) == (403, "host.unknown", "host.unknown")
    assert json.loads(answer["body"])["error"]["operator"] == f"egress log suggest {line['request']}"
    assert not scene.upstream.links


@NODE.proves("streaming")
async def test_a_stream_is_read_as_it_comes(scene: Scene[RawUpstream]) -> None:
    """The upstream goes on only when the last event was seen by the client."""
    seen = asyncio.Semaphore(0)

    async def events(visit: UpstreamRequest) -> None:
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),), "text/event-stream")
        for number in range(3):
            await visit.chunk(b"data: %d\n\n" % number)
            await seen.acquire()
        await visit.end_chunks()

    scene.upstream.handle("/events", events)
    script = """
    const answer = await fetch(url + "/events");
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) process.stdout.write(part);
    """
    arguments, environment = command(scene, TRANSPARENT, script)
    got = []
    async with (
        asyncio.timeout(30),
        started(scene.stack.folder, *arguments, environment=environment) as process,
    ):
        assert process.stdout is not None
        async for line in process.stdout:
            if line.strip():
                got.append(line)
                seen.release()
    assert got == [b"data: 0\n", b"data: 1\n", b"data: 2\n"]
    unlocked(scene.upstream, "/events")
    scene.carried(("GET", "/events", 200))


def is_newer(version: str) -> bool:
    """Whether this Node can be told to read the variables."""
    numbers = tuple(int(number) for number in version.split(".")[:2])
    return numbers >= (24, 5) or (22, 21) <= numbers < (23, 0)


@NODE.proves("variables")
async def test_fetch_does_not_read_a_variable(stage: Stage[RawUpstream]) -> None:
    if is_newer(NODE.version()):
        pytest.skip("this Node reads the variables: test_javascript.py")
    everything = {"HTTPS_PROXY": "{proxy}", "https_proxy": "{proxy}", "NODE_USE_ENV_PROXY": "1"}
    ran = await stage.ask(replace(NODE, variables={**NODE.variables, **everything}), "get", "/small")
    assert ran.status != 0
    assert "ENOTFOUND" in ran.err or "EAI_AGAIN" in ran.err, ran
    assert not stage.scene.stack.lines()
