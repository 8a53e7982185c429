"""urllib3, asked by a command line. It reads no variable: the program hands it the proxy and the bundle."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import urllib3


def main(verb: str, url: str, file: str = "") -> None:
    told = os.environ  # noqa: TID251 - the program looks, because the library does not
    pool = urllib3.ProxyManager(told["HTTPS_PROXY"], ca_certs=told["SSL_CERT_FILE"])
    if verb == "put":
        with Path(file).open("rb") as body:
            show(pool.request("PUT", url, body=body, preload_content=False))
    else:
        show(pool.request("GET", url, preload_content=False))


def show(answer: urllib3.BaseHTTPResponse) -> None:
    if answer.status >= 400:
        sys.exit(f"{answer.status} {answer.reason}")
    for part in answer.stream():
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


main(*sys.argv[1:])
