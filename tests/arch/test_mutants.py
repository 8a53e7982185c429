"""scripts/mutants plants the faults it should, leaves words alone, and takes every fault out again."""

from __future__ import annotations

import ast
import re

import pytest

from scripts.mutants.ledger import Accepted
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


def test_what_was_accepted_says_why() -> None:
    groups = Accepted().reasons()
    assert groups
    assert all(len(why.split()) > 3 for why in groups)
