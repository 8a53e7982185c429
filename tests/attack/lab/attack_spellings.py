"""Many spellings of one attack, each tried on its own, and what of them came to the host.

A shape is the bytes of a request with `MARK` somewhere in it, where nothing should get to that the shape
hides. Each gets a mark of its own, so that the naive proxy has to pass on every single one: a shape that even
it stops proves nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tests.attack.lab import harm
from tests.attack.lab.client import Answer, Line
from tests.attack.lab.harm import Harm
from tests.attack.lab.lab import Lab
from tests.attack.lab.proxies import Proxy

MARK = b"M4RK"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


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


def one_by_one(
    lab: Lab,
    proxy: Proxy,
    kind: Harm,
    spellings: Iterable[str],
    attempt: Callable[[str], None],
    immune: Mapping[str, str] = _NONE,
) -> None:
    """Try spellings of one destination or name.

    The naive proxy has to do this harm for each of them, so that no spelling is a dud; but for those that are
    `immune`, by the reason why even that proxy does nothing.
    """
    resisted = []
    for spelled in spellings:
        opened, asked = len(proxy.wire.opened), len(lab.dns.asked)
        known = {id(each) for each in lab.internet.connections()}
        attempt(spelled)
        if proxy.name != "naive":
            continue

        def is_done(opened: int = opened, asked: int = asked, known: set[int] = known) -> bool:
            lab.settle(proxy)
            match kind:
                case Harm.REACHED:
                    found = harm.reached(proxy, opened, proxy.excused)
                case Harm.ASKED:
                    questions = ((each.name, each.source) for each in lab.dns.asked[asked:])
                    found = harm.asked(proxy, questions)
                case Harm.STOLEN:
                    fresh = (each for each in lab.connections(proxy) if id(each) not in known)
                    found = harm.stolen(fresh, lab.secrets.all)
                case _:
                    raise ValueError(f"{kind} is not told by spelling")
            return any(True for _ in found)

        # Where nothing is to come, nobody waits for it.
        if not (is_done() if spelled in immune else lab.wait(proxy, is_done)):
            resisted.append(spelled)
    if proxy.name == "naive" and {*resisted} != {*immune}:
        duds, wrong = {*resisted} - {*immune}, {*immune} - {*resisted}
        raise AssertionError(
            f"the naive proxy shows no {kind} for {sorted(duds)}, and it does for {sorted(wrong)}"
        )


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
