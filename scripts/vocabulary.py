"""How the code reads, measured: class names, constants, first words, comments; each offender with its cure.

`python -m scripts.vocabulary [FILE or FOLDER]` prints each offender as `file:line: fault; cure`, then totals.
`tests/arch/test_vocabulary.py` holds them to their limits. The module reads source text and never imports it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_VAGUE_SHARE = 0.05
MIN_COMMENTS_PER_100, MAX_COMMENTS_PER_100 = 3.0, 8.0
# A shorter comment is a label, such as `# Limits`.
MIN_COMMENT_LENGTH = 21
# A longer function says somewhere why its steps stand in this order.
MAX_SILENT_LINES = 25

# Words that stand for a subject that has not been named yet.
VAGUE_WORD = re.compile(
    r"""what|who|whom|whose|whoever|whatever|those|it|its|one|where|whether|wherever|they|that|nobody|somebody
    |nothing|others|another|else|then|there|all|which|neither""",
    re.VERBOSE | re.IGNORECASE,
)
# Names that say how much, how long or which, and not of what.
BARE_NAME = re.compile(
    r"""_?(?:ALWAYS|BIGGEST|EARLY|ENOUGH|EVERYBODY|EVERYTHING|FEW|FEWEST|FIRST|GLANCE|HIGHEST|LARGEST|LAST|LATE
    |LATER|LEAST|LITTLE|LONG|LONGEST|LOWEST|MANY|MOST|MUCH|NEVER|NOBODY|NOTHING|OFTEN|PATIENCE|PAUSE|REST|ROOM
    |SHORT|SHORTEST|SLOW|SMALLEST|SOMETHING|SOON|WHILE)""",
    re.VERBOSE,
)
# Comments that are addressed to a tool.
DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|pragma|mypy:|ruff:|!)")
FIRST_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Offence:
    """One name or sentence that breaks a rule of the house."""

    file: str
    line: int
    fault: str
    cure: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.fault}; {self.cure}"


@dataclass(frozen=True, slots=True)
class Sentence:
    """The first line of a docstring, or one line of comment."""

    file: str
    line: int
    text: str

    @property
    def is_vague(self) -> bool:
        word = FIRST_WORD.search(self.text)
        return word is not None and VAGUE_WORD.fullmatch(word[0]) is not None


@dataclass(slots=True)
class Vocabulary:
    """Everything that was read, over all files."""

    classes: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    constants: list[tuple[str, int, str]] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)
    silent_functions: list[Offence] = field(default_factory=list)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Comments and code lines, by file."""

    def add(self, file: str, source: str) -> None:
        """Read one module."""
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                self.classes[node.name].append((file, node.lineno))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self._add_sentence(file, getattr(node, "lineno", 1), ast.get_docstring(node) or "")
        self.constants += [(file, line, name) for line, name in _constants(tree)]
        commented = set()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
                commented.add(token.start[0])
                if len(token.string) >= MIN_COMMENT_LENGTH:
                    self._add_sentence(file, token.start[0], token.string.lstrip("# "))
        self.silent_functions += _silent_functions(file, tree, commented)
        # Docstrings count as code here: the share is one of the lines that a reader scrolls through.
        lines = (line.strip() for line in source.splitlines())
        code_lines = sum(1 for line in lines if line and not line.startswith("#"))
        self.counts[file] = (len(commented), code_lines)

    def _add_sentence(self, file: str, line: int, text: str) -> None:
        first = text.partition("\n")[0]
        if FIRST_WORD.search(first):
            self.sentences.append(Sentence(file, line, first))

    @property
    def vague_share(self) -> float:
        return sum(sentence.is_vague for sentence in self.sentences) / max(len(self.sentences), 1)

    @property
    def comments_per_100(self) -> float:
        comments = sum(comments for comments, _ in self.counts.values())
        return 100 * comments / max(sum(code_lines for _, code_lines in self.counts.values()), 1)

    def vague_sentences(self) -> Iterator[Offence]:
        for sentence in self.sentences:
            if sentence.is_vague:
                yield Offence(
                    sentence.file,
                    sentence.line,
                    f"begins with a word that points at nothing: {sentence.text[:80]!r}",
                    "name the subject first, then what happens to it",
                )

    def silent_modules(self) -> Iterator[Offence]:
        """Modules with too few comments for their length, those that lack most first."""
        missing = {
            file: round(code_lines * MIN_COMMENTS_PER_100 / 100) - comments
            for file, (comments, code_lines) in self.counts.items()
        }
        for file, count in sorted(missing.items(), key=lambda item: -item[1]):
            if count > 0:
                yield Offence(
                    file, 1, f"too few comments, by {count}", "say why, at the steps that make a reader stop"
                )

    def bare_constants(self) -> Iterator[Offence]:
        for file, line, name in self.constants:
            if BARE_NAME.fullmatch(name):
                yield Offence(
                    file,
                    line,
                    f"{name} does not say of what",
                    "add its noun, as in MAX_HEAD_BYTES, POLL_INTERVAL",
                )

    def shared_classes(self, listed: Iterable[str] = ()) -> Iterator[Offence]:
        """Public class names that stand more than once, less those that are listed with a reason."""
        for name, places in sorted(self.classes.items()):
            if len(places) > 1 and name not in listed:
                (file, line), *others = places
                yield Offence(
                    file,
                    line,
                    f"{name} is also the name of {', '.join(f'{f}:{n}' for f, n in others)}",
                    "rename all but one, or list it in tests/arch/test_vocabulary.py with its reason",
                )


def _constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        for target in targets:
            # `FIRST, LAST = 1, 9` names two.
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from ((node.lineno, name.id) for name in names if isinstance(name, ast.Name))


def _silent_functions(file: str, tree: ast.Module, commented: set[int]) -> Iterator[Offence]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body[1:] if ast.get_docstring(node) else node.body
        first, last = (body[0].lineno, node.end_lineno or node.lineno) if body else (node.lineno, node.lineno)
        if last - first >= MAX_SILENT_LINES and commented.isdisjoint(range(first, last + 1)):
            yield Offence(
                file,
                node.lineno,
                f"{node.name} has {last - first + 1} lines and no comment",
                "say why its steps stand in this order, or make it shorter",
            )


def read(place: Path, root: Path) -> Vocabulary:
    """Read a module, or all below a folder; names are relative to `root`. Raises `FileNotFoundError`."""
    modules = [place] if place.is_file() else sorted(place.rglob("*.py"))
    if not modules:
        # An empty reading has no offenders, and would pass for a clean one.
        raise FileNotFoundError(f"no module at {place}")
    vocabulary = Vocabulary()
    for path in modules:
        vocabulary.add(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    return vocabulary


def main() -> None:
    root = Path.cwd()
    found = read(root / (sys.argv[1] if len(sys.argv) > 1 else "egress"), root)
    bare, shared = list(found.bare_constants()), list(found.shared_classes())
    for offence in (*found.vague_sentences(), *found.silent_functions, *bare, *shared):
        print(offence)
    print(
        f"vague first lines {100 * found.vague_share:.1f} % of {len(found.sentences)}; "
        f"comments {found.comments_per_100:.1f} per 100 lines; "
        f"long functions without a comment {len(found.silent_functions)}; "
        f"shared class names {len(shared)}; bare constants {len(bare)}"
    )


if __name__ == "__main__":
    main()
