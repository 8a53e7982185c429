"""Python's own urllib, asked by a command line."""

from __future__ import annotations

import sys
import urllib.request


def main(verb: str, url: str, file: str = "") -> None:
    if verb == "put":
        with open(file, "rb") as body:  # noqa: PTH123 - as a user would
            length = {"content-length": str(body.seek(0, 2))}
            body.seek(0)
            show(urllib.request.Request(url, data=body, headers=length, method="PUT"))
    else:
        show(urllib.request.Request(url))


def show(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request) as answer:
        while part := answer.read1():
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


main(*sys.argv[1:])
