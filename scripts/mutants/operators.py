"""The small faults that are planted, one at a time: what may stand in the place of one node of a program.

Each stands for a slip that a person makes: a bound off by one, a forgotten condition, a guard that is not
there, the other of two methods, a row missing from a table. What only changes the words of a message is no
fault here.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from scripts.mutants.patterns import weakened

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_TWINS = {
    "startswith": "endswith",
    "endswith": "startswith",
    "find": "rfind",
    "rfind": "find",
    "partition": "rpartition",
    "rpartition": "partition",
    "removeprefix": "removesuffix",
    "removesuffix": "removeprefix",
    "fullmatch": "match",
    "match": "search",
    "popleft": "pop",
}
_TWIN_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}
# Without its call the value still has its type.
_DROPPABLE = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "removeprefix",
                        "removesuffix", "replace", "translate"})  # fmt: skip


def _other_expressions(node: ast.expr, *, in_pattern: bool) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            yield from _other_comparisons(node)
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            yield from _shorter_conditions(node)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
            yield node.operand
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            yield _with(node, op=_ARITHMETIC[type(operator)]())
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.Constant():
            yield from _other_constants(node, in_pattern=in_pattern)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Set() | ast.List(ctx=ast.Load()) | ast.Tuple(ctx=ast.Load()) | ast.Dict():
            yield from _shorter_tables(node)
        case _:
            pass


def _with(node: ast.expr, **fields: object) -> ast.expr:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _other_comparisons(node: ast.Compare) -> Iterator[ast.expr]:
    for number, operator in enumerate(node.ops):
        others = _COMPARISONS.get(type(operator), ())
        for other in others if len(node.ops) == 1 else others[:1]:
            yield _with(node, ops=[*node.ops[:number], other(), *node.ops[number + 1 :]])


def _shorter_tables(node: ast.Set | ast.List | ast.Tuple | ast.Dict) -> Iterator[ast.expr]:
    rows = node.values if isinstance(node, ast.Dict) else node.elts
    if len(rows) < 2:
        return
    for number in range(len(rows)):
        fewer = rows[:number] + rows[number + 1 :]
        if isinstance(node, ast.Dict):
            yield _with(node, keys=node.keys[:number] + node.keys[number + 1 :], values=fewer)
        else:
            yield _with(node, elts=fewer)


def _shorter_conditions(node: ast.BoolOp) -> Iterator[ast.expr]:
    for number in range(len(node.values)):
        rest = node.values[:number] + node.values[number + 1 :]
        yield rest[0] if len(rest) == 1 else _with(node, values=rest)


def _other_constants(node: ast.Constant, *, in_pattern: bool) -> Iterator[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        yield _with(node, value=not value)
    elif isinstance(value, int):
        yield _with(node, value=value + 1)
        if value > 0:
            yield _with(node, value=value - 1)
    elif isinstance(value, str):
        for other in weakened(value, in_pattern=in_pattern):
            yield _with(node, value=other)
    elif isinstance(value, bytes):
        for other in weakened(value.decode("latin-1"), in_pattern=in_pattern):
            yield _with(node, value=other.encode("latin-1"))


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    match node.func:
        case ast.Attribute(value=receiver, attr=name):
            if name in _DROPPABLE:
                yield receiver
            if name in _TWINS:
                yield _with(node, func=_with(node.func, attr=_TWINS[name]))
        case ast.Name(id=name) if name in _TWIN_FUNCTIONS:
            yield _with(node, func=_with(node.func, id=_TWIN_FUNCTIONS[name]))
        case _:
            pass
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in ("message", "hint"):
            yield _with(node, keywords=node.keywords[:number] + node.keywords[number + 1 :])


# Statements -------------------------------------------------------------------------------------


def instead_of_statement(node: ast.stmt, *, is_only: bool) -> Iterator[ast.stmt]:
    """Yield every statement that is tried in the place of this one.

    `is_only`: it is all that a condition guards, so that leaving it out is the same as a condition that
    never holds.
    """
    match node:
        case ast.Expr(value=ast.Constant()):
            pass
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Continue() | ast.Break() if not is_only:
            yield _pass(node)
        case ast.AugAssign():
            yield _pass(node)
            if type(node.op) in _ARITHMETIC:
                yield _altered(node, op=_ARITHMETIC[type(node.op)]())
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if not is_only:
            yield _pass(node)
        case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
            yield _altered(node, value=ast.Constant(None))
        case ast.Return(value=None) if not is_only:
            yield _pass(node)
        case _:
            pass


def instead_of_condition(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statement with a condition that always holds, and with one that never does."""
    if isinstance(node, ast.If | ast.While):
        yield _altered(node, test=ast.Constant(value=False))
    if isinstance(node, ast.If):
        yield _altered(node, test=ast.Constant(value=True))


def _altered(node: ast.stmt, **fields: object) -> ast.stmt:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _pass(node: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), node)


def _is_nothing(node: ast.expr) -> bool:
    """Whether it is as false as None: what asks for the one rarely tells it from the other."""
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.Tuple(elts=found) | ast.List(elts=found):
            return not found
        case _:
            return False


# What is neither --------------------------------------------------------------------------------


def instead_of_part(node: ast.AST, *, in_pattern: bool) -> Iterator[ast.AST]:
    """Yield everything that is tried in the place of a node that is no statement."""
    match node:
        case ast.ExceptHandler():
            yield from _other_handlers(node)
        case ast.match_case():
            yield from _other_cases(node)
        case ast.comprehension():
            yield from _freer_loops(node)
        case ast.expr():
            yield from _other_expressions(node, in_pattern=in_pattern)
        case _:
            pass


def _other_handlers(node: ast.ExceptHandler) -> Iterator[ast.ExceptHandler]:
    """The handler that hands on what it was to handle."""
    if not (len(node.body) == 1 and isinstance(node.body[0], ast.Raise)):
        other = copy.copy(node)
        other.body = [ast.copy_location(ast.Raise(), node.body[0])]
        yield other


def _other_cases(node: ast.match_case) -> Iterator[ast.match_case]:
    """The case that never holds, and the one that holds without its further condition."""
    never = copy.copy(node)
    never.guard = ast.Constant(value=False)
    yield never
    if node.guard is not None:
        bare = copy.copy(node)
        bare.guard = None
        yield bare


def _freer_loops(node: ast.comprehension) -> Iterator[ast.comprehension]:
    """The loop of a comprehension without one of its conditions."""
    for number in range(len(node.ifs)):
        other = copy.copy(node)
        other.ifs = node.ifs[:number] + node.ifs[number + 1 :]
        yield other
