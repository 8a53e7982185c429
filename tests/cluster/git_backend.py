"""The git server of the stand-in for the internet: `git http-backend` behind requests that are already read.

It wants a credential, and says 401 without one. Whether it is the right one is a matter of the trial, which
finds it in the record.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from email.parser import Parser
from http import HTTPStatus
from pathlib import Path
from typing import Final

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
_ENVIRONMENT: Final = {"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "LC_ALL": "C"}
_AUTHOR: Final = ("-c", "user.name=a", "-c", "user.email=a@example.com")


def make_repository(folder: Path, name: str, text: str) -> None:
    """Make the bare repository `name` with one commit, to which everybody with a credential may push."""
    bare, work = folder / name, folder / f"{name}.work"
    for words in (
        ("init", "-q", "--bare", "-b", "main", str(bare)),
        ("-C", str(bare), "config", "http.receivepack", "true"),
        ("init", "-q", "-b", "main", str(work)),
    ):
        _git(*words)
    (work / "README.md").write_text(text, "utf-8")
    _git("-C", str(work), "add", ".")
    _git("-C", str(work), *_AUTHOR, "commit", "-q", "-m", "first")
    _git("-C", str(work), "push", "-q", str(bare), "main")


def head_of(folder: Path, name: str) -> str:
    """The newest commit of a repository."""
    return _git("-C", str(folder / name), "rev-parse", "main").strip()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], env=_ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


async def answer(folder: Path, head: str, reader: asyncio.StreamReader) -> bytes:
    """The whole response to a request."""
    first, _, rest = head.partition("\r\n")
    method, target, _ = first.split(" ")
    fields = Parser().parsestr(rest)
    body = await _body(fields.get("transfer-encoding", ""), int(fields.get("content-length", 0)), reader)
    if not fields.get("authorization"):
        return _response("401 Unauthorized", {"WWW-Authenticate": 'Basic realm="git"'}, b"")
    path, _, query = target.partition("?")
    environment = _ENVIRONMENT | {
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REMOTE_USER": "somebody",
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": fields.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "GIT_PROTOCOL": fields.get("git-protocol", ""),
        "HTTP_CONTENT_ENCODING": fields.get("content-encoding", ""),
    }
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    backend = await asyncio.create_subprocess_exec("git", "http-backend", env=environment, **pipes)  # type: ignore[arg-type]
    said, _ = await backend.communicate(body)
    told, _, content = said.partition(b"\r\n\r\n")
    answered = dict(Parser().parsestr(told.decode("latin-1")).items())
    return _response(answered.pop("Status", "200 OK"), answered, content)


async def _body(coding: str, length: int, reader: asyncio.StreamReader) -> bytes:
    if coding != "chunked":
        assert length <= MAX_BODY_BYTES
        return await reader.readexactly(length)
    found = b""
    while size := int(await reader.readline(), 16):
        assert size + len(found) <= MAX_BODY_BYTES
        found += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return found


def _response(status: str, fields: dict[str, str], content: bytes) -> bytes:
    code = status.split(" ", maxsplit=1)[0]
    head = [f"HTTP/1.1 {code} {HTTPStatus(int(code)).phrase}", f"Content-Length: {len(content)}"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + content
