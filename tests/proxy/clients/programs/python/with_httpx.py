"""httpx, asked by a command line."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import httpx


def main(verb: str, url: str, file: str = "") -> None:
    with httpx.Client(http2=True, timeout=60) as client:
        if verb == "put":
            with Path(file).open("rb") as body:
                show(client.stream("PUT", url, content=body))
        else:
            show(client.stream("GET", url))


def show(asked: contextlib.AbstractContextManager[httpx.Response]) -> None:
    with asked as answer:
        answer.raise_for_status()
        for part in answer.iter_bytes():
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


main(*sys.argv[1:])
