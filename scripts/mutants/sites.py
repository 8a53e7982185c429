"""Where in a module a fault can be planted, and what each is called.

A mutant is found by its name in every version of the file in which its line has not changed, so that what
was said about it stays true until somebody changes the line.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from scripts.mutants import operators

_FUNCTIONS: Final = ast.FunctionDef | ast.AsyncFunctionDef
# Their arguments are words for people; a fault there changes no verdict.
_SPEAKING: Final = frozenset({"error", "key_error", "warning", "debug", "info", "exception"})
# What nobody runs, or what only a type checker reads.
_SILENT: Final = frozenset({"annotation", "returns", "type_params", "decorator_list", "bases"})
_UNREAD_NAMES: Final = frozenset({"__all__", "__slots__", "__match_args__"})
_TYPING: Final = frozenset({"cast", "TypeVar", "NewType", "Literal"})


@dataclass(frozen=True, slots=True)
class Scope:
    """The definition that a node stands in."""

    name: str = ""
    function: str = ""
    """The outermost function around it, as its code object names it; empty when it runs on import."""
    first_line: int = 0
    source: str = ""
    assigned: tuple[str, ...] = ()
    """The names of the module that the statement around it defines."""


@dataclass(slots=True)
class Mutant:
    """One fault that can be planted in a parsed module, and taken out again."""

    file: str
    scope: Scope
    first: int
    last: int
    line: str
    before: str
    after: str
    owner: ast.AST
    slot: str
    index: int | None
    old: ast.AST
    new: ast.AST
    nth: int = 1

    @property
    def name(self) -> str:
        again = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.file} | {self.scope.name} | {self.line} | {self.before} -> {self.after}{again}"

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Put it into its tree for as long as the context lasts."""
        self._put(self.new)
        try:
            yield
        finally:
            self._put(self.old)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.owner, self.slot, node)
        else:
            getattr(self.owner, self.slot)[self.index] = node


@dataclass(slots=True)
class Module:
    """A parsed file with all its mutants."""

    file: str
    text: str
    tree: ast.Module = field(init=False)
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        self.lines = self.text.splitlines()

    def mutants(self) -> list[Mutant]:
        """Every mutant of the module, in the order of its text."""
        found = list(_Walk(self).block(self.tree, "body", self.tree.body, Scope()))
        seen: Counter[str] = Counter()
        for mutant in found:
            seen[mutant.name] += 1
            mutant.nth = seen[mutant.name]
        return found


class _Walk:
    def __init__(self, module: Module) -> None:
        self.module = module

    # Statements

    def block(self, owner: ast.AST, slot: str, body: list[ast.stmt], scope: Scope) -> Iterator[Mutant]:
        guarded = isinstance(owner, ast.If) and slot == "body" and not owner.orelse
        for index, node in enumerate(body):
            inner = self._scope(node, scope)
            place = (owner, slot, index)
            for new in operators.instead_of_statement(node, is_only=guarded and len(body) == 1):
                yield self.mutant(place, node, new, inner, node)
            for new in operators.instead_of_condition(node):
                yield self.mutant(place, node, new, inner, node)
            yield from self.statement(node, inner)

    def _scope(self, node: ast.stmt, scope: Scope) -> Scope:
        if scope.name:
            return scope
        assigned: tuple[str, ...] = ()
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            assigned = tuple(n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        return Scope(source=ast.unparse(node), assigned=assigned)

    def statement(self, node: ast.stmt, scope: Scope) -> Iterator[Mutant]:
        if isinstance(node, _FUNCTIONS | ast.ClassDef):
            yield from self.definition(node, scope)
            return
        if _is_unread(node, is_top=not scope.name):
            return
        for slot, value in ast.iter_fields(node):
            if slot in _SILENT:
                continue
            yield from self.field(node, slot, value, scope, node, speaking=isinstance(node, ast.Raise))

    def definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope
    ) -> Iterator[Mutant]:
        name = f"{scope.name}.{node.name}" if scope.name else node.name
        if isinstance(node, ast.ClassDef):
            inner = Scope(name, scope.function, scope.first_line, scope.source)
            yield from self.block(node, "body", node.body, inner)
            return
        outer = Scope(name, scope.function, scope.first_line, scope.source)
        yield from self.field(node.args, "defaults", node.args.defaults, outer, node)
        yield from self.field(node.args, "kw_defaults", node.args.kw_defaults, outer, node)
        if scope.function:
            inner = outer
        else:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            inner = Scope(name, name, first, ast.unparse(node))
        yield from self.block(node, "body", node.body, inner)

    # What statements hold

    def field(
        self, owner: ast.AST, slot: str, value: object, scope: Scope, stmt: ast.stmt, **state: bool
    ) -> Iterator[Mutant]:
        if isinstance(value, list):
            if value and isinstance(value[0], ast.stmt):
                yield from self.block(owner, slot, value, scope)
                return
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from self.node((owner, slot, index), item, scope, stmt, **state)
        elif isinstance(value, ast.AST):
            yield from self.node((owner, slot, None), value, scope, stmt, **state)

    def node(
        self,
        place: tuple[ast.AST, str, int | None],
        node: ast.AST,
        scope: Scope,
        stmt: ast.stmt,
        *,
        speaking: bool = False,
        in_pattern: bool = False,
    ) -> Iterator[Mutant]:
        if not (speaking and _is_words(node)):
            for new in operators.instead_of_part(node, in_pattern=in_pattern):
                yield self.mutant(place, node, new, scope, stmt)
        if isinstance(node, ast.Call):
            if _called(node) in _TYPING:
                return
            speaking = speaking or _is_speaking(node)
            in_pattern = in_pattern or _is_pattern(node)
        if isinstance(node, ast.Lambda):
            yield from self.field(node, "body", node.body, scope, stmt, speaking=speaking)
            return
        for slot, value in ast.iter_fields(node):
            if slot in _SILENT or isinstance(node, ast.MatchValue | ast.MatchClass):
                continue
            if isinstance(node, ast.Subscript) and slot == "value" and _called_name(node.value) in _TYPING:
                return
            yield from self.field(node, slot, value, scope, stmt, speaking=speaking, in_pattern=in_pattern)

    def mutant(
        self,
        place: tuple[ast.AST, str, int | None],
        old: ast.AST,
        new: ast.AST,
        scope: Scope,
        stmt: ast.stmt,
    ) -> Mutant:
        first = getattr(old, "lineno", stmt.lineno)
        last = _end_of_head(old) if isinstance(old, ast.stmt) else getattr(old, "end_lineno", first)
        for node in ast.walk(new):
            if isinstance(node, ast.expr | ast.stmt) and not hasattr(node, "lineno"):
                ast.copy_location(node, old if hasattr(old, "lineno") else stmt)
        before, after = _told(old, new)
        return Mutant(
            file=self.module.file,
            scope=scope,
            first=first,
            last=last,
            line=self.module.lines[first - 1].strip(),
            before=before,
            after=after,
            owner=place[0],
            slot=place[1],
            index=place[2],
            old=old,
            new=new,
        )


def _end_of_head(node: ast.stmt) -> int:
    if isinstance(node, ast.If | ast.While):
        return node.test.end_lineno or node.lineno
    return node.end_lineno or node.lineno


def _told(old: ast.AST, new: ast.AST) -> tuple[str, str]:
    """What changes, in words: of a table only the row that goes."""
    match old, new:
        case (ast.Tuple() | ast.List() | ast.Set(), ast.Tuple() | ast.List() | ast.Set()) | (
            ast.BoolOp(),
            ast.BoolOp(),
        ) if len(_parts(new)) < len(_parts(old)):
            gone = next(part for part in _parts(old) if part not in _parts(new))
            return _shown(gone), "nothing"
        case ast.Dict(), ast.Dict() if len(new.values) < len(old.values):
            at = next(n for n, value in enumerate(old.values) if value not in new.values)
            key = old.keys[at]
            return f"{_shown(key) if key else '**'}: {_shown(old.values[at])}", "nothing"
        case ast.Call(), ast.Call() if len(new.keywords) < len(old.keywords):
            return _shown(next(word for word in old.keywords if word not in new.keywords)), "nothing"
        case _:
            return _shown(old), _shown(new)


def _parts(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.BoolOp) else getattr(node, "elts", [])


def _shown(node: ast.AST) -> str:
    match node:
        case ast.If() | ast.While():
            text = f"{type(node).__name__.lower()} {ast.unparse(node.test)}"
        case ast.ExceptHandler(body=[ast.Raise(exc=None)]):
            text = "raise"
        case ast.ExceptHandler():
            text = "except"
        case ast.match_case():
            text = "case" if node.guard is None else f"case if {ast.unparse(node.guard)}"
        case ast.comprehension():
            text = "for" + "".join(f" if {ast.unparse(test)}" for test in node.ifs)
        case _:
            text = ast.unparse(node)
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:100]} ... {text[-56:]}"


# What says nothing about a verdict --------------------------------------------------------------


def _is_unread(node: ast.stmt, *, is_top: bool) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.TypeAlias():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(value=ast.Subscript()) if is_top:
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in _UNREAD_NAMES
        case _:
            return False


def _is_words(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _called(node: ast.Call) -> str:
    return _called_name(node.func)


def _called_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_speaking(node: ast.Call) -> bool:
    name = _called(node)
    return name.endswith("Error") or name in _SPEAKING


def _is_pattern(node: ast.Call) -> bool:
    match node.func:
        case ast.Attribute(value=ast.Name(id="re"), attr="compile"):
            return True
        case _:
            return False
