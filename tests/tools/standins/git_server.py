"""Bare repositories over HTTPS, by `git http-backend`, for whoever brings the right password."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.proxy.lab.git import git_environment
from tests.tools.vendor_server import VendorCall

USER: Final = "x-access-token"


class GitServer:
    """Serves what lies in one folder; anyone with the token may push."""

    def __init__(self, folder: Path, token: str, user: str = USER) -> None:
        self._folder = folder
        self._wanted = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode("ascii")

    def create(self, name: str, readme: str = "hello\n") -> Path:
        """A bare repository `name.git` with one commit on its branch `main`."""
        bare, work = self._folder / f"{name}.git", self._folder / "seed" / name
        work.mkdir(parents=True)
        (work / "README").write_text(readme, "utf-8")
        for folder, *words in (
            (self._folder, "init", "--quiet", "--bare", "--initial-branch=main", str(bare)),
            (bare, "config", "http.receivepack", "true"),
            (work, "init", "--quiet", "--initial-branch=main"),
            (work, "add", "README"),
            (work, "commit", "--quiet", "--message=first"),
            (work, "push", "--quiet", str(bare), "main"),
        ):
            self.git(*words, folder=folder)
        return bare

    def git(self, *words: str, folder: Path) -> str:
        """Run git on this side, and return what it prints."""
        environment = git_environment(self._folder)
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout.strip()

    def __call__(self, call: VendorCall) -> None:
        if call.header("authorization") != self._wanted:
            call.reply(b"who are you?\n", "text/plain", 401, {"www-authenticate": 'Basic realm="stand-in"'})
            return
        done = subprocess.run(
            ["git", "http-backend"],
            env=self._environment(call),
            input=call.body,
            capture_output=True,
            check=True,
            timeout=60,
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n"))
        fields = {name.lower(): value for name, _, value in lines}
        status = int(fields.pop("status", "200").split()[0])
        fields.pop("content-length", "")
        call.reply(body, fields.pop("content-type", "text/plain"), status, fields)

    def _environment(self, call: VendorCall) -> dict[str, str]:
        return git_environment(self._folder) | {
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": USER,
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": call.method,
            "PATH_INFO": _with_suffix(call.path),
            "QUERY_STRING": urlsplit(call.target).query,
            "CONTENT_TYPE": call.header("content-type"),
            "CONTENT_LENGTH": str(len(call.body)),
            "GIT_PROTOCOL": call.header("git-protocol"),
            "HTTP_CONTENT_ENCODING": call.header("content-encoding"),
        }


def _with_suffix(path: str) -> str:
    """A forge serves a repository with and without `.git`."""
    owner, name, *rest = path.lstrip("/").split("/")
    return "/".join(["", owner, name if name.endswith(".git") else f"{name}.git", *rest])
