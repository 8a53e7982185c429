"""A git server over HTTPS that wants a credential: `git http-backend` behind the lab's own upstream.

Everything but `Authorization: Basic` of `x-access-token:SECRET` is answered 401. Bare repositories lie in
one folder, and anyone with the secret may push.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import subprocess
from pathlib import Path

from tests.proxy.lab.channel import Channel
from tests.proxy.lab.http1 import Digest, Request, body_parts, read_head
from tests.proxy.lab.server import Link, Upstream
from tests.proxy.lab.upstream_request import UpstreamRequest

USER = "x-access-token"


def git_environment(home: Path) -> dict[str, str]:
    """What git needs and nothing of the person who runs the tests."""
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "lab",
        "GIT_AUTHOR_EMAIL": "lab@example.test",
        "GIT_COMMITTER_NAME": "lab",
        "GIT_COMMITTER_EMAIL": "lab@example.test",
        "LC_ALL": "C",
    }


class GitUpstream(Upstream):
    """Serves the repositories below `folder` to whoever knows `secret`."""

    def __init__(self, tls: ssl.SSLContext, folder: Path, secret: str) -> None:
        super().__init__(tls)
        self.requests: list[Request] = []
        self._folder = folder
        basic = base64.b64encode(f"{USER}:{secret}".encode()).decode("ascii")
        self._wanted = f"Basic {basic}"

    def create(self, name: str) -> Path:
        """An empty bare repository, `name.git`."""
        path = self._folder / f"{name}.git"
        environment = git_environment(self._folder)
        for arguments in (
            ("init", "--quiet", "--bare", "--initial-branch=main", str(path)),
            ("-C", str(path), "config", "http.receivepack", "true"),
        ):
            subprocess.run(["git", *arguments], env=environment, check=True, timeout=30)
        return path

    async def serve(self, link: Link, channel: Channel) -> None:
        while True:
            start, fields, raw = await read_head(channel)
            link.heads.append(raw)
            request = Request(start, fields, raw, link=link.number)
            self.requests.append(request)
            visit = UpstreamRequest(request, channel, link)
            if request.header("authorization") != self._wanted:
                await visit.body()
                challenge = (("www-authenticate", 'Basic realm="lab"'),)
                await visit.answer(b"who are you?\n", challenge, status="401 Unauthorized")
            else:
                await self._call(visit)

    async def _call(self, visit: UpstreamRequest) -> None:
        """One CGI call; the request's body streams in, the answer streams out in chunks."""
        if (visit.request.header("expect") or "").lower() == "100-continue":
            await visit.channel.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        backend = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=self._environment(visit.request),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        feeding = asyncio.get_running_loop().create_task(_feed(backend, visit))
        try:
            await _relay(backend, visit)
            await feeding
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            if backend.returncode is None:
                backend.kill()
            await backend.wait()

    def _environment(self, request: Request) -> dict[str, str]:
        path, _, query = request.target.partition("?")
        found = git_environment(self._folder) | {
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": USER,
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": request.header("content-type") or "",
            "GIT_PROTOCOL": request.header("git-protocol") or "",
            "HTTP_CONTENT_ENCODING": request.header("content-encoding") or "",
        }
        if (length := request.header("content-length")) is not None:
            found["CONTENT_LENGTH"] = length
        return found


async def _feed(backend: asyncio.subprocess.Process, visit: UpstreamRequest) -> None:
    if backend.stdin is None:
        raise RuntimeError("git http-backend was started without stdin")
    digest = Digest(0)
    try:
        async for part in body_parts(visit.channel, visit.request, to_the_end=False):
            digest.add(part)
            visit.request.size, visit.request.digest = digest.size, digest.hexdigest()
            backend.stdin.write(part)
            await backend.stdin.drain()
    finally:
        backend.stdin.close()


async def _relay(backend: asyncio.subprocess.Process, visit: UpstreamRequest) -> None:
    if backend.stdout is None:
        raise RuntimeError("git http-backend was started without stdout")
    status, kind, extra = "200 OK", "text/plain", []
    while line := (await backend.stdout.readline()).strip().decode("latin-1"):
        name, _, text = line.partition(": ")
        match name.lower():
            case "status":
                status = text
            case "content-type":
                kind = text
            case "content-length":
                pass  # the answer goes out in chunks
            case _:
                extra.append((name, text))
    await visit.begin(status, (*extra, ("transfer-encoding", "chunked")), kind)
    while part := await backend.stdout.read(65536):
        await visit.chunk(part)
    await visit.end_chunks()
