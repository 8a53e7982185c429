"""Records that come back exactly, and texts that are none."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.runtime.record_codec import decode_record, encode_record
from egress.runtime.spec import Mount, SandboxLimits, Spec

LIMIT = 10_000
NAMES = st.text("abcdefgh", min_size=1, max_size=8)
SPECS = st.builds(
    Spec,
    name=NAMES,
    image=NAMES,
    profile=st.none() | NAMES,
    env=st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
    labels=st.dictionaries(NAMES, NAMES),
    mounts=st.lists(
        st.builds(
            Mount, source=NAMES.map(lambda name: Path("/", name)), target=NAMES.map(lambda name: f"/{name}")
        ),
        max_size=2,
        unique_by=lambda mount: mount.target,
    ).map(tuple),
    limits=st.builds(SandboxLimits, disk_mib=st.none() | st.integers(1, 100)),
    ports=st.lists(st.integers(1, 65535)).map(tuple),
    read_only=st.booleans(),
)


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    spec: Spec
    note: str = ""


SPEC = Spec(name="one", image="any", env={"A": "b"}, mounts=(Mount(source=Path("/x"), target="/y"),))
TEXT = encode_record(Kept(spec=SPEC))


def changed(*path: str | int, value: object) -> bytes:
    """The text with one value that is another, or that is new."""
    found = json.loads(TEXT)
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(found).encode()


@settings(max_examples=50)
@given(spec=SPECS, note=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_record_comes_back_as_it_was(spec: Spec, note: str) -> None:
    record = Kept(spec=spec, note=note)
    assert decode_record(encode_record(record), Kept, LIMIT * 100) == record


@settings(max_examples=200)
@given(
    data=st.binary(max_size=60)
    | st.builds(lambda at: TEXT[:at] + TEXT[at + 1 :], st.integers(0, len(TEXT) - 2))
)
def test_any_other_text_is_refused_or_says_what_it_says(data: bytes) -> None:
    """At random, and the true one with a byte left out."""
    with suppress(ValueError):
        record = decode_record(data, Kept, LIMIT)
        assert decode_record(encode_record(record), Kept, LIMIT) == record


@pytest.mark.parametrize(
    "data",
    [
        changed("extra", value=1),
        changed("spec", "extra", value=1),
        changed("spec", "limits", "extra", value=None),
        changed("spec", "mounts", 0, "extra", value=False),
        changed("spec", "name", value="../other"),
        changed("spec", "user", value="0"),
        changed("spec", "user", value=-1),
        changed("spec", "env", value=[]),
        changed("spec", "mounts", 0, "source", value="relative"),
        changed("spec", "mounts", 0, "source", value=1),
        changed("spec", "mounts", 0, "source", value="/x/../x//"),
        changed("spec", value=None),
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 5000,
        TEXT + TEXT,
        TEXT + b" " * LIMIT,
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^\w[^\n]{5,150}$"):
        decode_record(data, Kept, LIMIT)


def test_a_missing_field_has_its_default() -> None:
    """Of a version that did not have it."""
    found = json.loads(TEXT)
    del found["note"], found["spec"]["read_only"]
    assert decode_record(json.dumps(found).encode(), Kept, LIMIT) == Kept(spec=SPEC)


def test_a_value_without_a_form_is_not_written_by_chance() -> None:
    class Odd(msgspec.Struct):
        it: object

    with pytest.raises(NotImplementedError, match="complex"):
        encode_record(Odd(1j))
