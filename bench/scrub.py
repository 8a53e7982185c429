"""How fast responses without a secret pass the scrub, and what a hit costs.

Prints numbers; judges nothing. A target is what the number should reach on two shared cores.
"""

from __future__ import annotations

import json
import random

from bench._timing import seconds
from egress.scrub import Needles, Scrubber
from egress.types import Secret

Row = tuple[str, float, str, float | None]

CHUNK = 64 * 1024
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    dice = random.Random(20)
    chunks = _json_chunks(dice)
    one = Needles.of([_token(dice, "one")])
    rows: list[Row] = []
    for name, needles, target in (
        ("scrub, 6 needles", _plain(dice, 6), 1.5),
        ("scrub, 120 needles", _plain(dice, 120), 0.4),
        (f"scrub, 1 secret ({len(one)} needles)", one, 1.5),
        ("scrub, 12 secrets", Needles.of(_token(dice, f"s{n}") for n in range(12)), 0.4),
    ):
        rows.append((name, _rate(needles, chunks), "GB/s", target))
    rows.append(("scrub, 1 secret, a hit in every chunk", _rate(one, _with_hits(chunks, one)), "GB/s", None))
    event = b'data: {"delta": "hello"}\n\n'
    header = "application/json; charset=utf-8"
    secret = _token(dice, "compiled")
    for name, job in (
        ("scrub, one event of 27 bytes", lambda: Scrubber(one).feed(event)),
        ("scrub, one header value", lambda: one.mask_text(header)),
        ("scrub, compile 1 secret", lambda: Needles.of([secret])),
    ):
        rows.append((name, seconds(job, 200) * 1e6, "us", None))
    return rows


def _token(dice: random.Random, name: str) -> Secret:
    return Secret(name, b"ghp_" + bytes(dice.choices(LETTERS, k=36)))


def _plain(dice: random.Random, count: int) -> Needles:
    return Needles({bytes(dice.choices(LETTERS, k=40)): (f"n{n}",) for n in range(count)})


def _json_chunks(dice: random.Random) -> list[bytes]:
    items = [
        {"id": n, "url": f"https://api.example.com/items/{n}?x=%20", "sha": dice.randbytes(20).hex()}
        for n in range(20000)
    ]
    text = json.dumps(items).encode()
    return [text[at : at + CHUNK] for at in range(0, len(text) - CHUNK, CHUNK)]


def _with_hits(chunks: list[bytes], needles: Needles) -> list[bytes]:
    needle = min(needles, key=len)
    return [chunk[:1000] + needle + chunk[1000 + len(needle) :] for chunk in chunks]


def _rate(needles: Needles, chunks: list[bytes]) -> float:
    def stream() -> None:
        scrubber = Scrubber(needles)
        for chunk in chunks:
            scrubber.feed(chunk)

    return sum(map(len, chunks)) / seconds(stream, 3) / 1e9


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<45} {value:10.3f} {unit:<5} {'' if target is None else f'target {target}'}")
