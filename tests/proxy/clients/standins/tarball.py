"""Archives of a few files, the same bytes each time they are made."""

from __future__ import annotations

import gzip
import io
import os
import tarfile

from tests.proxy.clients.standins.static_files import Files


def tar(files: Files) -> bytes:
    """A tar archive of these files, which belong to whoever makes it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.uid, entry.gid = len(content), os.getuid(), os.getgid()
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def tar_gz(files: Files) -> bytes:
    """A tar archive under gzip that compresses nothing, so that what is large stays large on the wire."""
    return gzip.compress(tar(files), compresslevel=0, mtime=0)
