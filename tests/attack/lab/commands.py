"""Commands of the proxy's user, run inside the room of a proxy: what they dial stays in the lab.

As installed programs are: with nothing of the folder they run in on Python's path.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.attack.lab.network import Room
from tests.cli.command import Outcome, environment
from tests.proxy.serve_process import until


def run_in(room: Room, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Run `egress` in a folder, which is also its home."""
    return program_in(room, folder, sys.executable, "-P", "-m", "egress", *arguments, env=env)


def program_in(room: Room, folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Run any program there, and wait for its end."""
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    said = [bytearray(), bytearray()]
    readers = [threading.Thread(target=_read, args=pair) for pair in ((out, said[0]), (err, said[1]))]
    for reader in readers:
        reader.start()
    try:
        process = room.spawn(argv, cwd=folder, env=environment(folder, env), out=out_end, err=err_end)
    finally:
        os.close(out_end)
        os.close(err_end)
    until(lambda: process.poll() is not None, f"{argv} to end")
    for reader in readers:
        reader.join()
    return Outcome(process.poll() or 0, *(data.decode("utf-8", "replace") for data in said))


def _read(descriptor: int, data: bytearray) -> None:
    with os.fdopen(descriptor, "rb") as stream:
        for part in iter(lambda: stream.read(65536), b""):
            data += part
