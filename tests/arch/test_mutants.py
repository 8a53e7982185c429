"""scripts/mutants plants the faults it should, leaves words alone, and takes every fault out again."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import Counter

import pytest

from scripts.mutants.__main__ import ROOT, VERDICTS, files
from scripts.mutants.ledger import ACCEPTED, Accepted
from scripts.mutants.sites import Module, Mutant


def mutants(source: str) -> list[Mutant]:
    return Module("egress/sample.py", source).mutants()


def changes(source: str) -> set[str]:
    return {f"{mutant.before} -> {mutant.after}" for mutant in mutants(source)}


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("x = a < 9", "a < 9 -> a <= 9"),
        ("x = a in b", "a in b -> a not in b"),
        ("x = 0 <= a <= 9", "0 <= a <= 9 -> 0 <= a < 9"),
        ("x = a and b", "a and b -> a or b"),
        ("x = a and b", "a and b -> a"),
        ("x = a and b and c", "b -> nothing"),
        ("x = not a", "not a -> a"),
        ("x = a + b", "a + b -> a - b"),
        ("x = a if b else c", "a if b else c -> c"),
        ("x = 9", "9 -> 10"),
        ("x = 9", "9 -> 8"),
        ("x = True", "True -> False"),
        ("x = 'a'", "'a' -> 'aX'"),
        ("x = ('a', 'b')", "'b' -> nothing"),
        ("x = {'a': b, 'c': d}", "'a': b -> nothing"),
        ("x = f(a, b=c)", "b=c -> nothing"),
        ("x = a.lower()", "a.lower() -> a"),
        ("x = a.startswith(b)", "a.startswith(b) -> a.endswith(b)"),
        ("x = any(a)", "any(a) -> all(a)"),
        ("x = [a for a in b if a]", "for if a -> for"),
        ("x = re.compile('a[bc]')", "'a[bc]' -> 'a[b]'"),
        ("if a:\n    b()", "if a -> if False"),
        ("if a:\n    b()", "if a -> if True"),
        ("while a:\n    b()", "b() -> pass"),
        ("a.b = c", "a.b = c -> pass"),
        ("a += 1", "a += 1 -> a -= 1"),
        ("def f():\n    return a", "return a -> return None"),
        ("def f(a=1): ...", "1 -> 2"),
        ("try:\n    a()\nexcept B:\n    c()", "except -> raise"),
        ("match a:\n    case 1:\n        b()", "case -> case if False"),
    ],
)
def test_plants_every_kind_of_slip(source: str, change: str) -> None:
    assert change in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""What a module is for."""',
        "raise ValueError('a sentence')",
        "from a import b",
        "type A = B | C",
        "__all__ = ['a', 'b']",
        "def f(a: Literal['b']) -> Literal['c']: ...",
        "x = cast('A', b)",
    ],
)
def test_leaves_words_and_types_alone(source: str) -> None:
    assert not {change for change in changes(source) if not change.startswith("raise")}


def test_takes_every_fault_out_again() -> None:
    module = Module("egress/sample.py", "def f(a):\n    if a and not b(1):\n        return [1, 'x']\n")
    before = ast.dump(module.tree)
    for mutant in module.mutants():
        with mutant.planted():
            assert ast.dump(module.tree) != before, mutant.name
        assert ast.dump(module.tree) == before, mutant.name


def test_gives_every_mutant_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in mutants("x = 1\ny = [1, 1, 1]\nz = 1 + 1\n")]
    assert len(set(names)) == len(names)


def test_a_pattern_that_has_lost_a_part_is_still_a_pattern() -> None:
    found = [m.after for m in mutants(r"x = re.compile(r'(?:a|b\.)[^c-e]{2,3}+')") if m.slot == "args"]
    assert len(found) > 5
    for pattern in found:
        re.compile(ast.literal_eval(pattern))


def test_knows_the_outermost_function_that_a_fault_stands_in() -> None:
    (one, *_) = mutants(
        "class A:\n    def b(self):\n        def c():\n            return 1\n        return c\n"
    )
    assert (one.scope.name, one.scope.function, one.scope.first_line) == ("A.b.c", "A.b", 2)


# What is known about ours -------------------------------------------------------------------------


def test_what_was_accepted_says_why() -> None:
    groups = Accepted().reasons()
    assert groups
    assert all(len(why.split()) > 3 for why in groups)


@functools.cache
def tried_in(file: str) -> list[Mutant]:
    """The mutants of a file, but for what is left out."""
    accepted = Accepted()
    everything = Module(file, (ROOT / file).read_text(encoding="utf-8")).mutants()
    return [mutant for mutant in everything if not accepted.leaves_out(mutant)]


def test_what_was_accepted_is_still_there() -> None:
    """An entry for a line that has changed says nothing about the new one."""
    accepted = Accepted()
    gone = [file for file in accepted.files() if not (ROOT / file).exists()]
    assert not gone, f"{ACCEPTED.name} speaks of files that are no more"
    found = [mutant for file in accepted.files() for mutant in tried_in(file)]
    assert not accepted.unused(found), f"{ACCEPTED.name} speaks of lines that are no more"


# The page ---------------------------------------------------------------------------------------

PAGE = (ROOT / "docs/mutation.md").read_text(encoding="utf-8")
Row = tuple[str, tuple[int, ...]]


def rows(heading: str) -> list[Row]:
    """The rows of the table below a heading of the page: what is in words, and the numbers."""
    _, _, below = PAGE.partition(f"\n## {heading}\n")
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in below.partition("\n## ")[0].splitlines()
        if line.startswith("|") and "---" not in line
    ]
    return [
        (" ".join(c for c in row if not c.isdigit()), tuple(int(c) for c in row if c.isdigit()))
        for row in cells[1:]
    ]


def files_of(where: str) -> set[str]:
    """The files that a row is about: one, all of a folder, or those of a folder that it names."""
    place, _, names = where.replace("`", "").partition(": ")
    return {f"{place}/{name}.py" for name in names.split(", ")} if names else set(files([place]))


def found_rows() -> list[Row]:
    return [row for row in rows("What was found") if row[0] != "all"]


def test_the_page_tells_of_every_file_that_makes_verdicts() -> None:
    """One that came after the last run would stand there as if it had been looked at."""
    told = [file for where, _ in found_rows() for file in files_of(where)]
    assert len(told) == len(set(told))
    tried = {file for file in files(list(VERDICTS)) if tried_in(file)}
    assert tried <= set(told) <= set(files(list(VERDICTS)))


def test_the_numbers_of_the_page_add_up() -> None:
    found = found_rows()
    assert all(mutants == sum(others) for _, (mutants, *others) in found)
    assert dict(rows("What was found"))["all"] == tuple(
        map(sum, zip(*(numbers for _, numbers in found), strict=True))
    )


def test_the_page_counts_what_was_accepted() -> None:
    groups = tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))["accepted"]
    by_reason: Counter[str] = Counter()
    by_file: Counter[str] = Counter()
    for group in groups:
        by_reason[group["why"]] += len(group["mutants"])
        by_file.update(name.partition(" | ")[0] for name in group["mutants"])
    assert {why: numbers[0] for why, numbers in rows("Why the others do not matter")} == by_reason
    assert {where: numbers[3] for where, numbers in found_rows()} == {
        where: sum(by_file[file] for file in files_of(where)) for where, _ in found_rows()
    }


def test_the_run_that_the_page_tells_of_is_about_the_code_as_it_is() -> None:
    """An edit does not ask for another run, but what has grown by a tenth was never looked at."""
    for where, (told, *_) in found_rows():
        found = sum(len(tried_in(file)) for file in files_of(where))
        assert abs(found - told) <= max(20, told // 10), f"run `make mutants` for {where} again"
