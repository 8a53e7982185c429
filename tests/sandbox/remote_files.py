"""The calls of the API about the files of one sandbox, of any runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from egress.api_server.server import ApiServer
from egress.fleet import Fleet
from tests.api_server.lab import Answer, ask
from tests.fleet.memory_fleet import short_folder


class RemoteFiles:
    """The calls about one sandbox."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def ask(
        self, method: str, call: str, body: object = None, headers: dict[str, str] | None = None, **query: str
    ) -> Answer:
        target = f"/v1/sandboxes/one/{call}" + (f"?{urlencode(query)}" if query else "")
        return ask(self._server, method, target, body, headers)

    def run(self, line: str) -> str:
        said: str = self.ask("POST", "exec", {"command": line}).body["stdout"]
        return said


@contextmanager
def served_files(fleet: Fleet, image: str, **settings: object) -> Iterator[RemoteFiles]:
    with short_folder() as folder:
        server = ApiServer(fleet, folder)
        try:
            made = ask(server, "PUT", "/v1/sandboxes/one", {"image": image, **settings})
            assert made.status == 200, made.body
            yield RemoteFiles(server)
        finally:
            fleet.remove("one")
            server.close()
