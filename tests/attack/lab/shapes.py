"""Many spellings of one attack, each tried on its own, and what of them came to the host.

A shape is the bytes of a request with `MARK` somewhere in it, where nothing should get to that the shape
hides. Each gets a mark of its own, so that the naive proxy has to pass on every single one: a shape that even
it stops proves nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from tests.attack.lab.client import Answer, Line
from tests.attack.lab.lab import Lab
from tests.attack.lab.proxies import Proxy

MARK = b"M4RK"


def tell(proxy: Proxy, host: str, data: bytes) -> Answer:
    """Send bytes through a tunnel of their own; the first answer, or how that failed.

    The naive proxy may wait for more of a request that has no end, and so may whoever is behind it. There
    the client says that there is no more, after which it is not answered either.
    """
    with proxy.tunnel(host) as line:
        if line.answer.status != 200:
            return line.answer
        line.send(data)
        if proxy.name == "naive":
            line.finish()
        return line.response(data.split(b" ", 1)[0].decode("latin-1", "replace"))


def try_all(
    lab: Lab, proxy: Proxy, host: str, shapes: Mapping[str, bytes], *wanted: tuple[int, str]
) -> list[str]:
    """Try every shape; the names of those whose mark the host was sent.

    Egress is held to `wanted`, if anything is; the naive proxy to passing all of them on.
    """
    marks: dict[str, bytes] = {}
    for name, shape in shapes.items():
        if MARK not in shape:
            raise ValueError(f"nothing would show that {name} was passed on")
        marks[name] = secrets.token_hex(8).encode()
        answer = tell(proxy, host, shape.replace(MARK, marks[name]))
        if wanted and proxy.name == "egress" and (answer.status, answer.code) not in wanted:
            raise AssertionError(f"{name}: expected one of {wanted}, got: {answer}")
    return arrived(lab, proxy, host, marks)


def arrived(lab: Lab, proxy: Proxy, host: str, marks: Mapping[str, bytes]) -> list[str]:
    """The names of the marks that a host was sent; at the naive proxy all have to be."""

    def missing() -> list[str]:
        heard = lab.heard(proxy, host)
        return [name for name, mark in marks.items() if mark not in heard]

    lab.wait(proxy, lambda: not missing())
    lost = missing()
    if lost and proxy.name == "naive":
        raise AssertionError(f"even the naive proxy does not pass on: {', '.join(lost)}")
    return [name for name in marks if name not in lost]


def in_turn(proxy: Proxy, host: str, requests: Iterable[bytes]) -> list[Answer]:
    """Ask one after the other through one tunnel, and through another one where that has ended."""
    answers: list[Answer] = []
    line: Line | None = None
    for data in requests:
        if line is None or line.ended or line.silent:
            line = proxy.tunnel(host)
        answer = _asked(line, data)
        if not answer.status and line.answer.status == 200:
            # It had ended after the last answer, which shows only now.
            line = proxy.tunnel(host)
            answer = _asked(line, data)
        answers.append(answer)
        if (answer.header("connection") or "").lower() == "close":
            line = None
    return answers


def _asked(line: Line, data: bytes) -> Answer:
    if line.answer.status != 200:
        return line.answer
    return line.send(data).response(data.split(b" ", 1)[0].decode("latin-1"))
