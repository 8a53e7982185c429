"""An index of Python packages: one page, one wheel."""

from __future__ import annotations

import hashlib
import io
import zipfile

from tests.proxy.clients.standins.static_files import Files
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

PACKAGE = "demo"
WHEEL = f"{PACKAGE}-1.0-py3-none-any.whl"
PAGE_PATH = f"/simple/{PACKAGE}/"
WHEEL_PATH = f"/files/{WHEEL}"


def serve_index(upstream: RawUpstream, content: bytes, path: str = WHEEL_PATH) -> None:
    """Offer the package; see `index_files`."""
    files = index_files(content, path)

    async def list_files(visit: UpstreamRequest) -> None:
        await visit.answer(files[PAGE_PATH], kind="text/html")

    async def give(visit: UpstreamRequest) -> None:
        await visit.answer(files[path], kind="application/octet-stream")

    upstream.handle(PAGE_PATH, list_files)
    upstream.handle(path, give)


def index_files(content: bytes, path: str = WHEEL_PATH) -> Files:
    """The page of the package and its wheel; `content` is a file in it, `path` is where the page leads."""
    wheel = wheel_of(content)
    digest = hashlib.sha256(wheel).hexdigest()
    page = f'<!doctype html><a href="{path}#sha256={digest}">{WHEEL}</a>\n'
    return {PAGE_PATH: page.encode(), path: wheel}


def wheel_of(content: bytes) -> bytes:
    """A wheel that compresses nothing, so that what is large stays large on the wire."""
    about = f"{PACKAGE}-1.0.dist-info"
    files = {
        f"{PACKAGE}/__init__.py": b"",
        f"{PACKAGE}/content": content,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {**files, f"{about}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()
