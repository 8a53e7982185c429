"""Values are written so that they are read as they were."""

from __future__ import annotations

import pytest

from egress.kubernetes.manifest_text import read_manifests
from egress.kubernetes.yaml_writer import write_yaml
from egress.rules.language.document import MissingValue, Value


def test_a_document_looks_like_one_of_kubectl() -> None:
    value: Value = {
        "kind": "Pod",
        "spec": {
            "containers": [{"name": "a", "args": ["--x", "y"], "env": []}, {"name": "b"}],
            "nested": [[1, 2], [], {}],
            "ok": True,
            "none": MissingValue(),
        },
        "script": "one\n\n  two\n",
    }
    assert write_yaml(value) == (
        "kind: Pod\n"
        "spec:\n"
        "  containers:\n"
        "  - name: a\n"
        "    args:\n"
        '    - "--x"\n'
        '    - "y"\n'
        "    env: []\n"
        "  - name: b\n"
        "  nested:\n"
        "  - - 1\n"
        "    - 2\n"
        "  - []\n"
        "  - {}\n"
        "  ok: true\n"
        "  none: null\n"
        "script: |\n"
        "  one\n"
        "\n"
        "    two\n"
    )


TEXTS = [
    *("yes", "null", "", "1", "0x1", "1e3", "~", "- a", "a: b", "a #b", " a", "a ", "#", "---", "12:30", "="),
    *("a\tb", "\x07", "\x85", "\u2028", "é", "\U0001f600", "\U000e0001", '"', "\\", "a\n", "\na", "<<"),
    *("a\n b\n", "a\nb", "\n", "a\n\n\nb\n\n", "a\n\tb", "http://x:1/", "agent:1", "a:", "a,b=c", " a\nb"),
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_every_text_comes_back(text: str) -> None:
    values: list[Value] = [{"a": text}, {text: "a"}, {"a": [text]}, {"a": [{"b": text}]}]
    for value in values:
        read = read_manifests("m.yaml", write_yaml(value))
        assert [document.value for document in read.documents] == [value]


def test_plain_words_are_not_quoted() -> None:
    assert (
        write_yaml({"image": "registry.example.com/agent:1.2"}) == "image: registry.example.com/agent:1.2\n"
    )
    assert write_yaml({"a": "$(NODE_IP)"}) == "a: $(NODE_IP)\n"
    assert write_yaml("text") == "text\n"
