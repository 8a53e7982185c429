"""The list of places that may see the bytes of a secret."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Adding a line here is a decision for a review, not a way to make the test pass.
MAY_REVEAL = {
    "egress/credentials/*": "writes the secret into the request",
    "egress/scrub*": "looks for the secret in what comes back",
    "egress/secrets/command.py": "makes a value of what a program has printed",
    "egress/cluster/exec_plugin.py": "reads the token that a plugin has printed",
}


def reveals(source: str) -> list[int]:
    """The lines that reach for `reveal`, called, passed on, or fetched by its name."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Attribute) and node.attr == "reveal")
        or (isinstance(node, ast.Constant) and node.value == "reveal")
    ]


def test_only_listed_files_reveal_a_secret() -> None:
    for module in sorted((ROOT / "egress").rglob("*.py")):
        place = module.relative_to(ROOT).as_posix()
        if not any(fnmatch(place, pattern) for pattern in MAY_REVEAL):
            lines = reveals(module.read_text(encoding="utf-8"))
            assert not lines, f"{place}:{lines[0]}: only {', '.join(MAY_REVEAL)} may reveal a secret"


def test_every_way_of_reaching_for_it_is_seen() -> None:
    assert reveals("s.reveal()") == [1]
    assert reveals("list(map(Secret.reveal, secrets))") == [1]
    assert reveals("getattr(s, 'reveal')()") == [1]
    assert reveals("# s.reveal()\nrevealed = True") == []
