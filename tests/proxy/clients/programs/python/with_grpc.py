"""grpcio, asked by a command line: `calls HOST`, `call HOST METHOD` or `large HOST`.

It says a line for each thing that went well. Messages are plain bytes, so no code has to be generated.
"""

from __future__ import annotations

import queue
import sys

import grpc

ANY_SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
PATIENCE = 60.0


def main(what: str, host: str, method: str = "Unary") -> None:
    with grpc.secure_channel(host, grpc.ssl_channel_credentials(), ANY_SIZE) as channel:
        if what == "calls":
            calls(channel)
        elif what == "large":
            message = bytes(range(256)) * (64 * 1024 * 4)
            say(unary(channel, method)(message, timeout=PATIENCE) == message)
        else:
            say(unary(channel, method)(b"hello", timeout=PATIENCE))


def unary(channel: grpc.Channel, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary(f"/lab.Echo/{method}")


def calls(channel: grpc.Channel) -> None:
    """All four kinds; in the last one each message waits for the answer to the one before."""
    down: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/lab.Echo/Down")
    up: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary("/lab.Echo/Up")
    both: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/lab.Echo/Both")
    say(unary(channel, "Unary")(b"one", timeout=PATIENCE))
    say(len(list(down(b"3", timeout=PATIENCE))))
    say(up(iter([b"a", b"b"]), timeout=PATIENCE))
    said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    answers = both(iter(said.get, None), timeout=PATIENCE)
    for word in (b"c", b"d"):
        said.put(word)
        say(next(answers))
    said.put(None)
    say(list(answers))


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")


main(*sys.argv[1:])
