"""The head of a request to the API server. Pure but for the token, which is read anew for each request."""

from __future__ import annotations

from egress.cluster.api_server import ClusterApi
from egress.errors import UsageError


def request_head(api: ClusterApi, method: str, path: str, more: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return the bytes of a head for a connection that carries one request."""
    lines = [f"{method} {api.prefix}{path} HTTP/1.1", f"Host: {api.host_header}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (("Accept", "application/json"), *api.headers(), *more)]
    # A line end in a name of an object would begin a header of its own.
    if any(not line.isascii() or not line.isprintable() for line in lines):
        raise UsageError("the path of a request to the API server is not plain text", "quote its parts")
    return "\r\n".join([*lines, "", ""]).encode("ascii")
