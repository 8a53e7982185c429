"""A stand-in for an index of gems, with one gem: `tiny` 1.0.0."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from tests.proxy.clients.program import run
from tests.proxy.clients.standins.static_files import Files
from tests.proxy.clients.standins.tarball import tar, tar_gz


async def index(home: Path, at: str, content: bytes) -> Files:
    """The files below a path; `content` is what the gem brings as lib/tiny.rb."""
    about = {"metadata.gz": gzip.compress(await _said(home, "yaml"), mtime=0)}
    gem = tar(about | {"data.tar.gz": tar_gz({"lib/tiny.rb": content})})
    return {
        # Whether this is there tells the client that the index is of the newer kind.
        f"{at}/": b"",
        f"{at}/info/tiny": f"---\n1.0.0 |checksum:{hashlib.sha256(gem).hexdigest()}\n".encode(),
        f"{at}/quick/Marshal.4.8/tiny-1.0.0.gemspec.rz": await _said(home, "marshal"),
        f"{at}/gems/tiny-1.0.0.gem": gem,
    }


async def _said(home: Path, form: str) -> bytes:
    ran = await run(home, "ruby", str(Path(__file__).with_name("gems.rb")), form)
    assert ran.status == 0, ran.err
    return ran.out
