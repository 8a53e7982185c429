"""websockets, asked by a command line."""

from __future__ import annotations

import sys

from websockets.sync.client import connect


def main(verb: str, url: str) -> None:
    if verb != "websocket":
        sys.exit("it speaks WebSocket and nothing else")
    with connect(url) as socket:
        socket.send("hello from the sandbox")
        sys.stdout.write(str(socket.recv()))


main(*sys.argv[1:])
