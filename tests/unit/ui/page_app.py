"""What the tests of the page share: asking an application without a socket, and logs to ask about.

No test client: its HTTP library would be one more thing to install, and it tidies what a browser would not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from starlette.types import ASGIApp, Message

from egress.ui import ChainWatch, IndexPool, LoginSession, RequestGuard, make

NOW = 1_772_400_000_000_000
RULES = """\
version: 1
secrets:
  github:
    from: env:GITHUB_TOKEN
    hosts: [api.github.com]
hosts:
  api.github.com:
    allow:
      - { id: read, methods: [GET, HEAD], paths: ["/**"] }
      - { id: narrow, methods: [GET], paths: ["/user"] }
    inject:
      - bearer: github
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str


def ask(
    app: ASGIApp,
    path: str,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    method: str = "GET",
    host: str | None = "127.0.0.1:8090",
) -> Answer:
    """One request. `host` is the `Host`; None sends none."""
    way, _, query = path.partition("?")
    given = list(headers.items() if isinstance(headers, Mapping) else headers)
    sent = ([("host", host)] if host is not None else []) + given
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": way,
        "raw_path": quote(way).encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8090),
    }
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    async def answered() -> None:
        await app(scope, receive, send)

    asyncio.run(answered())
    head = told[0]
    body = b"".join(message.get("body", b"") for message in told[1:])
    named = {name.decode(): value.decode() for name, value in head["headers"]}
    return Answer(head["status"], named, body.decode())


def line(seq: int, **fields: object) -> bytes:
    """A line as a proxy would write it, but for its MAC, which the pages do not read."""
    whole: dict[str, object] = {"seq": seq, "time": f"2026-03-01T09:30:{seq % 60:02d}.000123Z"}
    whole |= {"event": "exchange", "sandbox": "agent-1", "profile": "coding", "listener": "agent-1"}
    whole |= {"entry": "connect", "connection": f"c-{seq}", "request": f"r-{seq}", "scheme": "https"}
    whole |= {"host": "api.github.com", "port": 443, "address": "140.82.121.6", "sni": "api.github.com"}
    whole |= {"method": "GET", "path": "/user", "status": 200, "verdict": "allow", "code": "rule.allowed"}
    whole |= {"rule": "api.github.com#read", "place": "hosts.yaml:9", "observed": False}
    whole |= {"injected": [{"secret": "github", "slot": "header:authorization"}], "replaced": False}
    whole |= {"scrubbed": {}, "bytes_up": 10, "bytes_down": 20, "total_us": 5000, "policy": "5f2b"}
    whole |= fields | {"mac": "0" * 64}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def denied(seq: int, **fields: object) -> bytes:
    """A denied one."""
    refused = {"verdict": "deny", "code": "rule.none", "status": 403, "rule": None, "place": None}
    return line(seq, **{**refused, "injected": [], "method": "POST", "path": "/gists", **fields})


def write(folder: Path, lines: Sequence[bytes]) -> Path:
    """A log of these lines."""
    log = folder / "log"
    log.mkdir(exist_ok=True)
    with (log / "audit-000001.jsonl").open("ab") as file:
        file.write(b"".join(lines))
    return log


def rules(folder: Path) -> Path:
    """The rule file."""
    file = folder / "hosts.yaml"
    file.write_text(RULES)
    return file


def app(folder: Path, lines: Sequence[bytes] = (), watch: ChainWatch | None = None) -> ASGIApp:
    """The application over a log of these lines."""
    desk = IndexPool(
        write(folder, lines or [line(1), denied(2), line(3, host="docs.example.com", injected=[])])
    )
    return make(desk, watch or ChainWatch(()), [rules(folder)], lambda: NOW, is_watching=False)


def guarded(folder: Path, session: LoginSession | None = None) -> ASGIApp:
    """The application behind its guard."""
    return RequestGuard(app(folder), (), session)
