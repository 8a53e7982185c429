"""How fast responses without a secret pass the scrub, and what a hit costs.

Prints numbers; judges nothing. A target is what the number should reach on two shared cores. The slowest of
several secrets of a shape counts: whether a search is fast depends on the value of the secret.
"""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable
from functools import partial

from bench._timing import seconds
from egress.scrub import MAX_HITS, Needles, Scrubber
from egress.types import Secret

Row = tuple[str, float, str, float | None]

CHUNK = 64 * 1024
KIND_BYTES = 8 * CHUNK
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SECRETS_OF_A_SHAPE = 12


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    dice = random.Random(20)
    chunks = _chunks(_json(dice, 20_000))
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
    rows += _shapes(dice)
    event = b'data: {"delta": "hello"}\n\n'
    header = "application/json; charset=utf-8"
    secret = _token(dice, "compiled")
    full = min(one, key=len) * MAX_HITS
    for name, job in (
        ("scrub, one event of 27 bytes", lambda: Scrubber(one).feed(event)),
        ("scrub, one header value", lambda: one.mask_text(header)),
        ("scrub, compile 1 secret", lambda: Needles.of([secret])),
        ("scrub, the most hits that a response may have", lambda: Scrubber(one).feed(full)),
    ):
        rows.append((name, seconds(job, 20) * 1e6, "us", None))
    return rows


def _shapes(dice: random.Random) -> list[Row]:
    """Measure each shape of secret on each kind of data."""
    kinds = {name: _chunks(make()) for name, make in _kinds(dice).items()}
    rows: list[Row] = []
    for shape, make in _shapes_of_secrets(dice).items():
        searches = [Needles.of([Secret(shape, make())]) for _ in range(SECRETS_OF_A_SHAPE)]
        for kind, chunks in kinds.items():
            slowest = min(_rate(search, chunks, rounds=3) for search in searches)
            rows.append((f"scrub, {shape} in {kind}", slowest, "GB/s", 1.0))
    return rows


def _shapes_of_secrets(dice: random.Random) -> dict[str, Callable[[], bytes]]:
    def letters(count: int) -> bytes:
        return bytes(dice.choices(LETTERS, k=count))

    return {
        "npm_": lambda: b"npm_" + letters(36),
        "ghp_": lambda: b"ghp_" + letters(36),
        "UUID": lambda: str(uuid.UUID(int=dice.getrandbits(128))).encode(),
        "32 hex digits": lambda: dice.randbytes(16).hex().encode(),
        "base64": lambda: base64.b64encode(dice.randbytes(32)),
        "words": lambda: b"-".join(dice.choices([b"correct", b"horse", b"staple"], k=3)) + letters(6),
        "8 letters": partial(letters, 8),
    }


def _kinds(dice: random.Random) -> dict[str, Callable[[], bytes]]:
    return {
        "zeros": lambda: bytes(KIND_BYTES),
        "random bytes": lambda: dice.randbytes(KIND_BYTES),
        "base64": lambda: base64.b64encode(dice.randbytes(KIND_BYTES))[:KIND_BYTES],
        "hex": lambda: dice.randbytes(KIND_BYTES // 2).hex().encode(),
        "JSON": lambda: _json(dice, KIND_BYTES // 100)[:KIND_BYTES],
        "Cyrillic": lambda: ("съешь ещё этих мягких булок " * (KIND_BYTES // 40)).encode()[:KIND_BYTES],
    }


def _token(dice: random.Random, name: str) -> Secret:
    return Secret(name, b"ghp_" + bytes(dice.choices(LETTERS, k=36)))


def _plain(dice: random.Random, count: int) -> Needles:
    return Needles({bytes(dice.choices(LETTERS, k=40)): (f"n{n}",) for n in range(count)})


def _json(dice: random.Random, count: int) -> bytes:
    items = [
        {"id": n, "url": f"https://api.example.com/items/{n}?x=%20", "sha": dice.randbytes(20).hex()}
        for n in range(count)
    ]
    return json.dumps(items).encode()


def _chunks(text: bytes) -> list[bytes]:
    return [text[at : at + CHUNK] for at in range(0, len(text) - CHUNK + 1, CHUNK)]


def _with_hits(chunks: list[bytes], needles: Needles) -> list[bytes]:
    needle = min(needles, key=len)
    return [chunk[:1000] + needle + chunk[1000 + len(needle) :] for chunk in chunks]


def _rate(needles: Needles, chunks: list[bytes], rounds: int = 9) -> float:
    def stream() -> None:
        scrubber = Scrubber(needles)
        for chunk in chunks:
            scrubber.feed(chunk)

    return sum(map(len, chunks)) / seconds(stream, 3, rounds) / 1e9


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<45} {value:10.3f} {unit:<5} {'' if target is None else f'target {target}'}")
