"""A stand-in for a proxy of Go modules, as the go command has it, with one: `lab.test/tiny` v1.0.0."""

from __future__ import annotations

import io
import zipfile

from tests.proxy.clients.standins.static_files import CREDENTIAL, Files

MODULE = "lab.test/tiny"
SOURCE = b"package tiny\n"
DEFINITION = f"module {MODULE}\n\ngo 1.19\n".encode()


def modules(at: str, ballast: bytes = b"") -> Files:
    """The files below a path; `ballast` is a file of the module."""
    place = f"{at}/{MODULE}/@v/v1.0.0"
    return {
        f"{place}.info": b'{"Version":"v1.0.0"}',
        f"{place}.mod": DEFINITION + f"// {CREDENTIAL}\n".encode(),
        f"{place}.zip": _zip({"go.mod": DEFINITION, "tiny.go": SOURCE, "ballast": ballast}),
    }


def _zip(files: Files) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(f"{MODULE}@v1.0.0/{name}"), content)
    return made.getvalue()
