"""requests, asked by a command line."""

from __future__ import annotations

import sys
from pathlib import Path

import requests


def main(verb: str, url: str, file: str = "") -> None:
    if verb == "put":
        with Path(file).open("rb") as body:
            show(requests.put(url, data=body, timeout=60))
    else:
        show(requests.get(url, stream=True, timeout=60))


def show(answer: requests.Response) -> None:
    answer.raise_for_status()
    for part in answer.iter_content(None):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


main(*sys.argv[1:])
