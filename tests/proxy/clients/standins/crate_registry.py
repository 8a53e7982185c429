"""A stand-in for a registry of crates, as the sparse protocol has it, with one crate: `tiny` 0.1.0."""

from __future__ import annotations

import hashlib
import json

from tests.proxy.clients.standins.static_files import CREDENTIAL, Files
from tests.proxy.clients.standins.tarball import tar_gz

SOURCE = b"pub fn answer() -> u32 { 42 }\n"
MANIFEST = b'[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n'
USER = """\
[package]
name = "user"
version = "0.1.0"
edition = "2021"
[dependencies]
tiny = { version = "0.1", registry = "lab" }
"""
"""The manifest of a package that needs it."""


def registry(at: str, url: str, ballast: bytes = b"", *, locked: bool = False) -> Files:
    """The files below the path `at` of `url`, with `ballast` in the crate; `locked`: it wants a token."""
    files = {"Cargo.toml": MANIFEST, "src/lib.rs": SOURCE, "ballast": ballast}
    crate = tar_gz({f"tiny-0.1.0/{name}": content for name, content in files.items()})
    line = {"name": "tiny", "vers": "0.1.0", "deps": [], "features": {}, "yanked": False}
    line["cksum"] = hashlib.sha256(crate).hexdigest()
    about = {"dl": f"{url}{at}/dl", "auth-required": locked, "seen": CREDENTIAL}
    return {
        f"{at}/config.json": json.dumps(about).encode(),
        f"{at}/ti/ny/tiny": json.dumps(line).encode() + b"\n",
        f"{at}/dl/tiny/0.1.0/download": crate,
    }
