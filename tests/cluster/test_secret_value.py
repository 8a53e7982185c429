"""The value of one key of a Secret: strict base64, a bound, and never in an error."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cluster.secret_value import MAX_VALUE_BYTES, SecretReader, value_of
from egress.errors import UnreadableError
from egress.kubernetes.named_object import NamedObject, NamedObjectMeta
from tests.cluster.fake_api_server import running
from tests.cluster.fake_object_server import FakeObjectServer

VALUE = b"sesame-open-sesame-42"


def secret(text: str | None) -> NamedObject:
    data = None if text is None else {"k": text}
    return NamedObject(NamedObjectMeta("tokens", "agents", "u", "1"), data)


@given(st.binary(max_size=200))
def test_every_value_comes_back(value: bytes) -> None:
    assert value_of(secret(base64.b64encode(value).decode()), "tokens", "k") == value


@given(st.text(max_size=60))
def test_a_text_is_the_one_spelling_of_its_value_or_an_error(text: str) -> None:
    try:
        value = value_of(secret(text), "tokens", "k")
    except UnreadableError:
        return
    assert base64.b64encode(value).decode() == text


@pytest.mark.parametrize(
    "text",
    [
        "c2VzYW1l=",
        "c2VzYW1l\n",
        " c2VzYW1l",
        "c2VzYW1",
        "c2Vz YW1l",
        "c2Vz-W1l",
        "_____",
        "c2VzYW1lIR==",
        "é",
    ],
)
def test_another_spelling_is_no_value_and_is_not_quoted(text: str) -> None:
    with pytest.raises(UnreadableError, match="not in base64") as error:
        value_of(secret(text), "tokens", "k")
    assert text.strip() not in f"{error.value} {error.value.hint}"


def test_a_value_has_a_bound() -> None:
    largest = b"x" * MAX_VALUE_BYTES
    assert value_of(secret(base64.b64encode(largest).decode()), "tokens", "k") == largest
    for more in (1, 2, 3, 4, 100):
        text = base64.b64encode(b"x" * (MAX_VALUE_BYTES + more)).decode()
        with pytest.raises(UnreadableError):
            value_of(secret(text), "tokens", "k")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UnreadableError, match="the Secret tokens does not exist"):
        value_of(None, "tokens", "k")
    for found in (secret(None), secret("c2VzYW1l")):
        with pytest.raises(UnreadableError, match="has no key other"):
            value_of(found, "tokens", "other")


async def test_a_reader_asks_for_one_secret_by_its_name(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", {"k": base64.b64encode(VALUE).decode()})
    async with running(tmp_path, server) as api:
        reader = SecretReader(api)
        assert await asyncio.to_thread(reader.value, "tokens", "k") == VALUE
        with pytest.raises(UnreadableError, match="does not exist"):
            await asyncio.to_thread(reader.value, "others", "k")
        server.status = 403
        with pytest.raises(UnreadableError, match="answers 403"):
            await asyncio.to_thread(reader.value, "tokens", "k")
    assert server.requests[0] == "GET /api/v1/namespaces/agents/secrets/tokens"
