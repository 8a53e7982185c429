"""Ids of GitHub's objects: known ones are read as GitHub's API shows them, and each has one spelling."""

from __future__ import annotations

import base64

import pytest

from egress.inspect.graphql.github.node_id import (
    MAX_NODE_ID_CHARS,
    NodeId,
    NodeIdError,
    Part,
    read_node_id,
    write_node_id,
)


def code_of(text: str) -> str:
    with pytest.raises(NodeIdError) as caught:
        read_node_id(text)
    assert not text or text not in str(caught.value)
    return caught.value.code


def packed(prefix: str, data: bytes) -> str:
    return f"{prefix}_{base64.urlsafe_b64encode(data).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    ("text", "prefix", "repository"),
    [
        # As answers of the public API show them.
        ("R_kgDOABPHjQ", "R", 1296269),
        ("I_kwDOABPHjQE", "I", 1296269),
        ("U_kgDOADP9xw", "U", 0),
        ("PRRT_kwDOP3Td2M6Hdbh9", "PRRT", 0x3F74DDD8),
        ("PRRC_kwDOP3Td2M7IkHrI", "PRRC", 0x3F74DDD8),
        ("PRR_kwDOQs6tNc8AAAABPj6qbQ", "PRR", 0x42CEAD35),
        ("REF_kwDOGSuXyq9yZWZzL2hlYWRzL21haW4", "REF", 0x192B97CA),
        ("REF_kwDOJ7Oy4rhyZWZzL2hlYWRzL3NoYXJlZC1icmFuY2g", "REF", 0x27B3B2E2),
        ("C_kwDOE2GARtoAKDk3MGU3NWJlMmRhZGE4MjgxMTRhYzU5ZDg0NWEyM2NkZTI5ZTkwY2E", "C", 0x13618046),
        ("CR_kwDOIVc8sc8AAAACI12rNA", "CR", 0x21573CB1),
        ("DIC_kwDOFs7gBM4COKgn", "DIC", 0x16CEE004),
        ("MI_kwDOCxaBas4Arvqn", "MI", 0x0B16816A),
        ("RA_kwDOIp8CNM4QVBGe", "RA", 0x229F0234),
        ("BOT_kgDOCnlnWA", "BOT", 0),
        ("T_kwDOCLVnYc4Ag-ti", "T", 0),
        ("MDEwOlJlcG9zaXRvcnkxMjk2MjY5", "R", 1296269),
    ],
)
def test_ids_of_the_public_api(text: str, prefix: str, repository: int) -> None:
    assert read_node_id(text) == NodeId(prefix, repository)


@pytest.mark.parametrize("text", ["MDU6SXNzdWUx", "MDQ6VXNlcjE="])
def test_an_older_id_tells_nothing_but_of_a_repository(text: str) -> None:
    assert code_of(text) == "graphql.old_node_id"


RIGHT = b"\x92\x00\xce\x00\x13\xc7\x8d"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "R_",
        "R",
        "1296269",
        "R_kgDOABPHjQ=",
        "R_kgDOABPHjQ==",
        " R_kgDOABPHjQ",
        "R_kgDOABPHjQ\n",
        "r_kgDOABPHjQ",
        "R_kgDOABPHjR",  # a spare bit
        "R-kgDOABPHjQ",
        "MDEwOlJlcG9zaXRvcnkxMjk2MjY5=",
        "MDEwOlJlcG9zaXRvcnkxMjk2MjY5\n",
        packed("R", RIGHT + b"\x00"),
        packed("R", RIGHT[:-1]),
        packed("R", b"\x92\x00\xcf\x00\x00\x00\x00\x00\x13\xc7\x8d"),  # a number with leading zeros
        packed("R", b"\x92\xcc\x00\xce\x00\x13\xc7\x8d"),
        packed("R", b"\xdc\x00\x02\x00\xce\x00\x13\xc7\x8d"),  # the longer head of an array
        packed("R", b"\x92\x01\xce\x00\x13\xc7\x8d"),
        packed("R", b"\x92\x00\xd2\x00\x13\xc7\x8d"),  # a number with a sign
        packed("R", b"\x92\x00\x00"),
        packed("R", b"\x92\x00\xa1a"),
        packed("R", b"\x91\x00"),
        packed("R", b"\x93\x00\x01\x01"),
        packed("I", b"\x92\x00\x01"),
        packed("I", b"\x94\x00\x01\x01\x01"),
        packed("REF", b"\x93\x00\x01\xd9\x01a"),  # the text of a newer MessagePack
        packed("REF", b"\x93\x00\x01\xda\x00\x01a"),
        packed("PVT", b"\x93\x00\x01\x01"),
        packed("O", b"\x92\x00\x01"),
        base64.b64encode(b"09:Repository1").decode(),
        base64.b64encode(b"010:Repository01").decode(),
        base64.b64encode(b"010:Repository").decode(),
        "é" * 8,
        "R_" + "k" * MAX_NODE_ID_CHARS,
    ],
)
def test_another_spelling_or_type_is_refused(text: str) -> None:
    assert code_of(text) == "graphql.node_id"


@pytest.mark.parametrize("size", [31, 32, 300])
def test_texts_of_each_length_are_written_as_they_are_read(size: int) -> None:
    parts: tuple[Part, ...] = (0, 7, b"r" * size)
    assert read_node_id(write_node_id("REF", parts)) == NodeId("REF", 7)
