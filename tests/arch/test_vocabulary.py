"""One language: class names are unique, constants carry a noun, sentences name their subject, code says why.

`python -m scripts.vocabulary` prints every offender with its place and its cure.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from scripts.vocabulary import (
    MAX_COMMENTS_PER_100,
    MAX_VAGUE_SHARE,
    MIN_COMMENTS_PER_100,
    Offence,
    Vocabulary,
    read,
)

ROOT = Path(__file__).parents[2]
MAX_SHARED_CLASSES = 10
MAX_SHOWN_OFFENCES = 60

# Class names that stand in more than one module, each with its reason.
SHARED_CLASSES: dict[str, str] = {
    "Allow": "operators write it in handlers; in the rule language it is the item of a list",
    "Deny": "operators write it in handlers; in the rule language it is the item of a list",
    "Request": "operators read it in handlers, where only one request is meant",
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return read(ROOT / "egress", ROOT)


def report(offences: Iterable[Offence]) -> str:
    """The offenders, one a line, as far as a screen takes them."""
    lines = [str(offence) for offence in offences]
    rest = len(lines) - MAX_SHOWN_OFFENCES
    more = [f"and {rest} more: python -m scripts.vocabulary prints them"] if rest > 0 else []
    return "\n".join(["", *lines[:MAX_SHOWN_OFFENCES], *more])


def test_no_public_class_name_stands_in_two_modules(vocabulary: Vocabulary) -> None:
    offences = list(vocabulary.shared_classes(SHARED_CLASSES))
    assert not offences, report(offences)


def test_the_list_of_shared_class_names_is_short_true_and_reasoned(vocabulary: Vocabulary) -> None:
    assert len(SHARED_CLASSES) <= MAX_SHARED_CLASSES
    assert [name for name in SHARED_CLASSES if len(vocabulary.classes.get(name, ())) < 2] == []
    assert [name for name, reason in SHARED_CLASSES.items() if len(reason) < 20] == []


def test_every_constant_says_of_what_it_is(vocabulary: Vocabulary) -> None:
    offences = list(vocabulary.bare_constants())
    assert not offences, report(offences)


def test_few_first_lines_begin_with_a_word_that_points_at_nothing(vocabulary: Vocabulary) -> None:
    share = vocabulary.vague_share
    assert share <= MAX_VAGUE_SHARE, f"{share:.1%} of them do" + report(vocabulary.vague_sentences())


def test_comments_are_there_and_are_not_everywhere(vocabulary: Vocabulary) -> None:
    """A reader of a long function needs its reasons; a comment on each line says that the code is unclear."""
    comments = vocabulary.comments_per_100
    assert comments >= MIN_COMMENTS_PER_100, report(vocabulary.silent_modules())
    assert comments <= MAX_COMMENTS_PER_100


def test_a_long_function_says_why_its_steps_stand_in_this_order(vocabulary: Vocabulary) -> None:
    assert not vocabulary.silent_functions, report(vocabulary.silent_functions)


# The checker itself ---------------------------------------------------------------------------


def of(*sources: str) -> Vocabulary:
    """Modules a.py, b.py and so on, read."""
    found = Vocabulary()
    for letter, source in zip("abcdef", sources, strict=False):
        found.add(f"{letter}.py", source)
    return found


def test_a_class_name_in_two_modules_is_found_with_both_places_and_a_cure() -> None:
    (offence,) = of("class Line: pass", "\n\nclass Line: pass").shared_classes()
    assert str(offence).startswith("a.py:1: Line is also the name of b.py:3; rename all but one, or list it")


def test_a_class_inside_a_class_or_a_function_counts() -> None:
    assert list(of("class Line: pass", "def f():\n    class Line: pass").shared_classes())


@pytest.mark.parametrize(
    "sources",
    [
        ("class Line: pass", "class Row: pass"),
        ("class _Line: pass", "class _Line: pass"),
        ("class Line: pass", "from a import Line"),
    ],
)
def test_a_class_name_of_its_own_is_fine(sources: tuple[str, ...]) -> None:
    assert not list(of(*sources).shared_classes())


def test_a_listed_class_name_may_be_shared() -> None:
    twice = of("class Clock: pass", "class Clock: pass")
    assert not list(twice.shared_classes({"Clock": "a narrow port"}))
    assert list(twice.shared_classes({"Watch": "another"}))


@pytest.mark.parametrize(
    "source",
    ["MOST = 5", "_PATIENCE: float = 2.0", "_GLANCE: Final = 1", "A, LAST = 1, 9", "LONGEST = _LONG = 3"],
)
def test_a_bare_constant_is_found_with_its_place_and_a_cure(source: str) -> None:
    offences = list(of(f"\n{source}").bare_constants())
    assert offences
    assert all(str(offence).startswith("a.py:2: ") for offence in offences)
    assert "add its noun, as in MAX_HEAD_BYTES" in str(offences[0])


@pytest.mark.parametrize(
    "source",
    [
        "MOST_LINES = 5",
        "CONNECT_TIMEOUT = 2.0",
        "first = 1",
        "def f():\n    MOST = 5",
        "ALMOST = 1",
        "from a import MOST",
    ],
)
def test_a_constant_with_its_noun_is_fine(source: str) -> None:
    assert not list(of(source).bare_constants())


@pytest.mark.parametrize(
    "source",
    [
        '"""What is left over."""',
        'def f():\n    """Whether it is."""',
        'class C:\n    """`One` of the lines.\n\n    The rest is clear.\n    """',
        "x = 1  # nobody is told of this one",
        '"""It\'s a kind of list."""',
    ],
)
def test_a_sentence_without_a_subject_is_found_with_its_place_and_a_cure(source: str) -> None:
    found = of(f"\n{source}")
    (offence,) = found.vague_sentences()
    assert found.vague_share == 1
    assert str(offence).startswith("a.py:")
    assert str(offence).endswith("name the subject first, then what happens to it")


@pytest.mark.parametrize(
    "source",
    [
        '"""The lines that are left."""',
        '"""Onerous checks come last."""',
        '"""Lines.\n\nWhat follows is no first line.\n"""',
        "x = 1  # one of three",
        'x = 1\n"""What a field says is no docstring of a definition."""',
        'x = "# What stands in a text is no comment"',
        "x: int = y  # type: ignore[what-ever-it-is-called]",
    ],
)
def test_a_sentence_with_its_subject_is_fine(source: str) -> None:
    assert not list(of(source).vague_sentences())


def test_the_share_is_of_all_first_lines() -> None:
    found = of('"""What is left."""\n\ndef f():\n    """Count lines."""', "# A second module says this.\n")
    assert found.vague_share == pytest.approx(1 / 3)
    assert Vocabulary().vague_share == 0


def test_comments_are_counted_in_code_lines_and_directives_are_not() -> None:
    found = of('"""Head."""\n\n# Why.\nx = 1  # Reason.\ny = "# text"\nz = 2  # noqa: X\n#!x\n')
    assert found.counts == {"a.py": (2, 4)}
    assert found.comments_per_100 == 50


def test_a_module_with_few_comments_is_named_with_how_many_it_lacks() -> None:
    found = of("x = 1\n" * 100, "x = 1  # Why.\n" * 3 + "x = 1\n" * 97, "x = 1\n" * 40)
    assert [str(offence) for offence in found.silent_modules()] == [
        "a.py:1: too few comments, by 3; say why, at the steps that make a reader stop",
        "c.py:1: too few comments, by 1; say why, at the steps that make a reader stop",
    ]


STEPS = "\n".join(["    x = 1"] * 25)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (f"def f():\n{STEPS}\n    return x", 26),
        (f'async def f():\n    """Text."""\n{STEPS}\n    y = 2', 26),
        (f"# Outside.\ndef f():  # noqa: X\n{STEPS}\n    return x", 26),
        (f"def f():\n{STEPS}", 0),
        (f"def f():\n{STEPS}\n    return x  # Because of the order.", 0),
        (f'def f():\n    """Text."""\n{STEPS}', 0),
    ],
)
def test_a_long_function_without_a_comment_is_named(source: str, lines: int) -> None:
    told = [f"f has {lines} lines and no comment"] if lines else []
    assert [offence.fault for offence in of(source).silent_functions] == told


def test_a_report_ends_with_the_number_of_those_left_out() -> None:
    many = [Offence("a.py", n, "fault", "cure") for n in range(MAX_SHOWN_OFFENCES + 2)]
    assert report(many).splitlines()[-1].startswith("and 2 more: ")
    assert report(many[:1]) == "\na.py:0: fault; cure"


def test_a_single_module_is_read(tmp_path: Path) -> None:
    module = tmp_path / "one.py"
    module.write_text("MOST = 3\n", encoding="utf-8")
    (offence,) = read(module, tmp_path).bare_constants()
    assert offence.file == "one.py"


def test_a_place_without_modules_is_an_error(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none.py"):
        with pytest.raises(FileNotFoundError, match="no module at"):
            read(place, tmp_path)


def test_every_module_of_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "egress/deep").mkdir(parents=True)
    (tmp_path / "egress/deep/a.py").write_text("MOST = 1\n", encoding="utf-8")
    (offence,) = read(tmp_path / "egress", tmp_path).bare_constants()
    assert offence.file == "egress/deep/a.py"
