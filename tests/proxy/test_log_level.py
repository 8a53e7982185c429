"""S-72: with everything a sandbox can do, at the level `debug`, no secret is in what the proxy writes."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from wsproto.events import TextMessage

from egress.scrub import spellings
from egress.types import Secret
from tests.cli.command import put
from tests.proxy.injecting_proxy import NAME, certs, denied, visit
from tests.proxy.lab.client import RefusedError, at, connect
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.server import Upstream
from tests.proxy.lab.websocket import open_websocket
from tests.proxy.serve_process import ServeProcess

SECRET = "s3same/open+sesame=42&more"
"""With characters that every coding writes differently."""
BAD = "bad.example.test"
LOST = "lost.example.test"


def rules(port: int, bad: int, folder: Path) -> str:
    return f"""\
version: 1
secrets:
  tracker: {{from: "file:{put(folder / "secret", SECRET)}", hosts: ["{NAME}:{port}", "{BAD}:{bad}"]}}
  gone: {{from: "file:{folder / "missing"}", hosts: ["{LOST}:{port}"]}}
  variable: {{from: "env:TRACKER", hosts: ["{LOST}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, methods: [GET]}}
      - {{id: ws, paths: ["/ws"], websocket: true}}
    inject: [{{bearer: tracker}}]
  {BAD}:
    ports: [{bad}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: tracker}}]
  {LOST}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: gone}}]
"""


def wanted() -> set[bytes]:
    """Every spelling of the secret: those that are searched for, and those that this test thinks of."""
    raw = SECRET.encode()
    basic = base64.b64encode(b"user:" + raw)
    found = {
        raw,
        raw.hex().encode(),
        raw.hex().upper().encode(),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
        # What stands in the middle of one, wherever it began.
        basic[8:-4],
        quote(SECRET, safe="").encode(),
        quote(SECRET).encode(),
        json.dumps(SECRET).strip('"').encode(),
        repr(SECRET)[1:-1].encode(),
    }
    return found | set(spellings(Secret("tracker", raw)))


def written(served: ServeProcess) -> dict[str, bytes]:
    audit = b"".join(file.read_bytes() for file in (served.state / "audit").rglob("*") if file.is_file())
    return {
        "standard output": "\n".join(served.out).encode(),
        "standard error": "\n".join(served.err).encode(),
        "audit log": audit,
    }


async def use(served: ServeProcess, upstream: RawUpstream, bad: Upstream) -> None:
    """Every kind of traffic, and everything that an operator does meanwhile."""
    host = f"{NAME}:{upstream.port}"
    async with await visit(served, upstream) as peer:
        for path in ("/echo", "/echo-gzip", "/echo-header", f"/echo?mine={quote(SECRET, safe='')}"):
            await peer.get(path, host, f"authorization: Bearer {SECRET}\r\n")
    async with await visit(served, upstream) as peer:
        response = await peer.request(f"POST /echo HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        assert response.status == 403
    assert (await denied(served, upstream, "evil.example.test")).status == 403
    with pytest.raises(RefusedError):
        await connect(
            at(upstream.port),
            f"{SECRET.replace('/', '')}.test",
            None,
            proxy=at(served.port),
            extra=f"proxy-authorization: Basic {base64.b64encode(SECRET.encode()).decode()}\r\n",
        )
    async with await visit(served, bad, BAD) as peer:  # type: ignore[arg-type]
        assert (await peer.get("/echo", f"{BAD}:{bad.port}")).status == 502
    async with await visit(served, upstream, LOST) as peer:
        assert (await peer.get("/echo", f"{LOST}:{upstream.port}")).status == 403
    async with await visit(served, upstream) as peer:
        socket = await open_websocket(peer.channel, host)
        assert socket.response is not None
        assert socket.response.status == 101
        await socket.send(TextMessage("credential"))
        await socket.receive()
        await socket.send(TextMessage("close"))
        await socket.receive()
    await asyncio.to_thread(operate, served)


def operate(served: ServeProcess) -> None:
    before = served.rules.read_text(encoding="utf-8")
    served.write(before + "  new.example.test: {}\n")
    assert served.ask("POST", "/reload")[0] == 200
    served.write(before + "  hots: }\n")
    assert served.ask("POST", "/reload")[0] == 409
    for name in ("tracker", NAME, "default"):
        assert served.egress("kill", name).status == 0
    assert served.ask("GET", "/status")[0] == 200
    assert served.ask("POST", "/stop")[0] == 200
    assert served.ended() == 0


@pytest.fixture(params=["json", "text"], name="form")
def a_form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_no_secret_is_in_any_log_at_any_level(form: str, tmp_path: Path) -> None:
    async with (
        RawUpstream(certs.good(NAME, LOST)) as upstream,
        RawUpstream(certs.expired(BAD)) as bad,
    ):
        names = [f"--resolve={name}=127.0.0.1" for name in (NAME, BAD, LOST)]
        ca = certs.write_ca(tmp_path / "upstream-ca.pem")
        more = [
            f"--upstream-ca={ca}",
            *names,
            "--container",
            "--log-level=debug",
            f"--log-format={form}",
            "--drain=1s",
        ]
        with ServeProcess(tmp_path, rules(upstream.port, bad.port, tmp_path), more) as served:
            await use(served, upstream, bad)
            found = written(served)
        assert any(SECRET.encode() in head for link in upstream.links for head in link.heads), "it was sent"
    for place, text in found.items():
        for spelling in wanted():
            assert spelling not in text, (place, spelling)
    # The twin: what is no secret is there.
    log, audit = found["standard error"], found["audit log"]
    for word in (b"tracker", b"secret.unavailable", b"secret.unresolvable", b"tls.refused", b"rules.refused"):
        assert word in log, word
    for code in (b"rule.allowed", b"host.unknown", b"upstream.tls", b"secret.unavailable", b'"killed"'):
        assert code in audit, code
    assert b'"scrubbed":{"tracker":' in audit
    at_start, after_reload = [line for line in log.splitlines() if b"secret.unresolvable" in line]
    for told in (at_start, after_reload):
        assert b"hosts.yaml:5:3" in told, "where the secret is written that cannot be had"
        assert b"`file:`" in told, "what to do instead"
