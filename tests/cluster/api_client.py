"""A client of a real API server, for tests: it writes as controllers do, and is no part of Egress."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

type Json = dict[str, Any]

PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
}


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True)
class ApiClient:
    """The API server of a kubeconfig with certificates in it."""

    host: str
    port: int
    context: ssl.SSLContext

    @classmethod
    def of(cls, kubeconfig: Path) -> ApiClient:
        config = json.loads(kubeconfig.read_text("utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        server = urlsplit(cluster["server"])
        assert server.hostname
        assert server.port
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode("ascii")
        context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as both:
            for part in ("client-certificate-data", "client-key-data"):
                both.write(base64.b64decode(user[part]))
            both.flush()
            context.load_cert_chain(both.name)
        return cls(server.hostname, server.port, context)

    def get(self, path: str) -> Json:
        return self._ask("GET", path)

    def create(self, path: str, value: Json) -> Json:
        return self._ask("POST", path, value)

    def replace(self, path: str, value: Json) -> Json:
        return self._ask("PUT", path, value)

    def patch(self, path: str, value: object, kind: str = "merge") -> Json:
        more = "?fieldManager=tests&force=true" if kind == "apply" else ""
        return self._ask("PATCH", path + more, value, PATCHES[kind])

    def delete(self, path: str, seconds: int | None = None) -> Json:
        """Delete an object; a pod has so many seconds to end in."""
        return self._ask("DELETE", path, None if seconds is None else {"gracePeriodSeconds": seconds})

    def text(self, path: str) -> str:
        """Return what is no JSON, such as the log of a container."""
        return self._send("GET", path).decode("utf-8", "replace")

    def watch(self, path: str) -> Iterator[Json]:
        """Give the events of a collection, beginning with all that it holds, until the connection ends."""
        with self._connection(None) as connection:
            connection.request("GET", f"{path}{'&' if '?' in path else '?'}watch=1")
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError(response.status, response.read().decode("utf-8", "replace"))
            for line in response:
                yield json.loads(line)

    def _ask(self, method: str, path: str, value: object = None, kind: str = "application/json") -> Json:
        found: Json = json.loads(self._send(method, path, value, kind))
        return found

    def _send(self, method: str, path: str, value: object = None, kind: str = "application/json") -> bytes:
        body = None if value is None else json.dumps(value)
        with self._connection(30.0) as connection:
            connection.request(method, path, body, {"Content-Type": kind})
            response = connection.getresponse()
            data = response.read()
        if response.status >= 300:
            raise ApiError(response.status, data.decode("utf-8", "replace"))
        return data

    def _connection(self, timeout: float | None) -> _Closing:
        return _Closing(self.host, self.port, timeout=timeout, context=self.context)


class _Closing(http.client.HTTPSConnection):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
