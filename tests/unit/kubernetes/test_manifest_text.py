"""Manifests are read as kubectl reads them, or not at all."""

from __future__ import annotations

import pytest

from egress.kubernetes.manifest_text import MAX_DOCUMENTS, MAX_MANIFEST_DEPTH, read_manifests, reads_as_text
from egress.rules.language.document import MissingValue, Value


def values(text: str) -> list[Value]:
    read = read_manifests("m.yaml", text)
    assert read.findings == ()
    return [document.value for document in read.documents]


def faults(text: str) -> list[str]:
    return [finding.message for finding in read_manifests("m.yaml", text).findings]


def test_several_documents_with_their_lines() -> None:
    text = "# first\na: 1\n--- # second\n# of the second\nb: 2\n---\n# nothing\n---\nc: 3\n"
    read = read_manifests("m.yaml", text)
    assert [(each.number, each.value) for each in read.documents] == [
        (1, {"a": 1}),
        (2, {"b": 2}),
        (4, {"c": 3}),
    ]
    assert [(each.first_line, each.root_line, each.end_line) for each in read.documents] == [
        (0, 1, 2),
        (2, 4, 5),
        (7, 8, 9),
    ]
    assert str(read.documents[1].source.place(("b",))) == "m.yaml:5:4"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "null\n"])
def test_a_stream_without_a_value_has_no_documents(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: null\n", MissingValue()),
        ("a:\n", MissingValue()),
        ("a: 0400\n", 256),
        ("a: 1e3\n", 1000.0),
        ("a: 0.5\n", 0.5),
        ("a: '0400'\n", "0400"),
        ("a: 2001-01-01\n", "2001-01-01"),
        ("a: 100m\n", "100m"),
        ("a: |\n  yes\n", "yes\n"),
    ],
)
def test_values_are_those_of_kubectl(text: str, value: Value) -> None:
    assert values(text) == [{"a": value}]


@pytest.mark.parametrize("word", ["yes", "No", "ON", "off", "y", "N"])
def test_a_word_that_kubectl_takes_for_a_boolean_is_refused(word: str) -> None:
    assert faults(f"hostNetwork: {word}\n") == [f"kubectl reads `{word}` as true or false"]
    assert faults(f"{word}: 1\n") == [f"kubectl reads the key `{word}` otherwise"]
    assert values(f"a: '{word}'\n") == [{"a": word}]


NUMBERS = ["0x10", "0o17", "0b1", "0b+1", "1_000", "-_0", "08", ".inf", "1e999", "12345678901234567890"]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_readers_disagree_about_is_refused(number: str) -> None:
    assert faults(f"runAsUser: {number}\n") == [
        f"`{number}` is a number for some readers and text for others"
    ]


def test_a_separator_that_only_one_parser_sees_is_refused() -> None:
    assert faults("a: 1\n--- {b: 2}\n") == ["text follows `---` on its line, which kubectl drops"]
    assert faults("a: 1\n---b: 2\n") == ["text follows `---` on its line, which kubectl drops"]
    assert faults("a: 1\n---# b\n") == ["text follows `---` on its line, which kubectl drops"]
    assert faults("a: 1\n--- # b\n---\t\n") == []
    assert faults("%YAML 1.1\n---\na: 1\n") == ["kubectl takes a `%` line for a document"]
    assert faults("a: 1\n...\n") == ["kubectl does not end a document at `...`"]


@pytest.mark.parametrize("text", ["a: &x 1\n", "a: !!str 1\n", "a: {<<: {}}\n", "a: 1\na: 2\n", "a: [\n"])
def test_anchors_tags_merge_keys_and_doubled_keys_are_refused(text: str) -> None:
    assert faults(text)
    assert read_manifests("m.yaml", text).documents == ()


def test_aliases_that_multiply_are_refused_before_they_do() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "this is a YAML alias, which is not read here" in faults(bomb)


def test_depth_and_number_of_documents_are_limited() -> None:
    assert faults("[" * MAX_MANIFEST_DEPTH + "]" * MAX_MANIFEST_DEPTH + "\n") == []
    deeper = MAX_MANIFEST_DEPTH + 1
    assert faults("[" * deeper + "]" * deeper + "\n") == [
        f"nesting is deeper than {MAX_MANIFEST_DEPTH} levels"
    ]
    assert faults("---\n" * (MAX_DOCUMENTS + 1)) == [f"more than {MAX_DOCUMENTS} documents"]
    assert faults("---\n" * MAX_DOCUMENTS) == []


def test_text_that_every_reader_takes_for_text_is_known() -> None:
    assert [word for word in ("abc", "100m", "1.2.3", "v1", "2001-01-01") if not reads_as_text(word)] == []
    words = ("yes", "on", "True", "null", "~", "", "1", "0400", "0x1", "1_0", ".5", "1e3", ".nan")
    assert [word for word in words if reads_as_text(word)] == []


@pytest.mark.parametrize("key", ["true", "Null", "~", "+1", "1.0", "1e3", "0400", "-0"])
def test_a_key_that_kubectl_writes_otherwise_is_refused(key: str) -> None:
    assert faults(f"{key}: 1\n")
    assert values(f"'{key}': 1\n") == [{key: 1}]
    assert values("80: 1\n-7: 2\n") == [{"80": 1, "-7": 2}]
