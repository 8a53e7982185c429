"""A registry of npm packages: one document, one tarball."""

from __future__ import annotations

import base64
import hashlib
import json

from tests.proxy.clients.standins.static_files import Files, shelve
from tests.proxy.clients.standins.tarball import tar_gz
from tests.proxy.lab.raw_upstream import RawUpstream

PACKAGE = "demo"
TARBALL_PATH = f"/{PACKAGE}/-/{PACKAGE}-1.0.0.tgz"


def serve_registry(upstream: RawUpstream, host: str, content: bytes, path: str = TARBALL_PATH) -> None:
    """Offer the package; see `registry_files`."""
    shelve(upstream, registry_files(host, content, path))


def registry_files(host: str, content: bytes, path: str = TARBALL_PATH) -> Files:
    """The files of the registry; `host` is where clients find it, `content` a file in the package.

    `path` is where the document says that the tarball is.
    """
    about = {"name": PACKAGE, "version": "1.0.0"}
    tarball = tar_gz({"package/package.json": json.dumps(about).encode(), "package/content": content})
    digest = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    dist = {"tarball": f"https://{host}{path}", "integrity": f"sha512-{digest}"}
    document = {
        "name": PACKAGE,
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {**about, "dist": dist}},
    }
    return {f"/{PACKAGE}": json.dumps(document).encode(), path: tarball}
