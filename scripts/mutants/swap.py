"""Put a mutant into a process: into one that has already imported everything, or before the first import.

The quick way replaces the code of living functions and the plain constants of living modules. It is exact
where it applies, and says so where it does not. The sure way imports the changed text in the first place.
Neither touches a file.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib.machinery
import re
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from typing import TypeGuard

from scripts.mutants.sites import Module, Mutant

_PLAIN = (str, bytes, int, float, bool, type(None), re.Pattern)
_PACKAGE = "egress"


class NotSwappedError(Exception):
    """The quick way does not reach what this mutant changes."""


def module_name(file: str) -> str:
    """The name under which a file of the repository is imported."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# The quick way ----------------------------------------------------------------------------------


class Living:
    """The functions and caches of this process that belong to the package."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._functions: dict[tuple[str, str, int], list[types.FunctionType]] = {}
        self._caches = []
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType):
                code = thing.__code__
                key = (code.co_filename, code.co_qualname, code.co_firstlineno)
                self._functions.setdefault(key, []).append(thing)
            elif _is_cache(thing) and thing.__module__.partition(".")[0] == _PACKAGE:
                self._caches.append(thing)

    def swap(self, module: Module, mutant: Mutant) -> None:
        """Make this process behave as if the mutant had been imported; raises `NotSwappedError`."""
        path = str(self._root / mutant.file)
        with mutant.planted():
            try:
                code = compile(module.tree, path, "exec")
            except (SyntaxError, ValueError):
                raise NotSwappedError from None
        if mutant.scope.function:
            self._swap_function(path, mutant, code)
        else:
            self._swap_constants(mutant, code)
        self.forget()

    def forget(self) -> None:
        """Empty the caches: a line behind one is reached by the first test alone."""
        for cache in self._caches:
            cache.cache_clear()

    def _swap_function(self, path: str, mutant: Mutant, code: types.CodeType) -> None:
        key = (path, mutant.scope.function, mutant.scope.first_line)
        new = next((c for c in _codes(code) if (c.co_qualname, c.co_firstlineno) == key[1:]), None)
        living = self._functions.get(key)
        if new is None or not living:
            raise NotSwappedError
        for function in living:
            try:
                function.__code__ = new
            except ValueError:
                raise NotSwappedError from None

    def _swap_constants(self, mutant: Mutant, code: types.CodeType) -> None:
        name = module_name(mutant.file)
        real = sys.modules.get(name)
        if real is None:
            raise NotSwappedError
        fresh = types.ModuleType(name)
        fresh.__file__, fresh.__package__ = real.__file__, real.__package__
        exec(code, fresh.__dict__)  # noqa: S102 - that is what a mutant is for
        changed = dict(_changed_constants(vars(real), vars(fresh)))
        if not changed:
            raise NotSwappedError
        for module_name_, other in list(sys.modules.items()):
            if module_name_.partition(".")[0] != _PACKAGE:
                continue
            for key, value in list(vars(other).items()):
                if key in changed and value is vars(real).get(key):
                    setattr(other, key, changed[key])
        for key, value in changed.items():
            setattr(real, key, value)


def _is_cache(thing: object) -> TypeGuard[functools._lru_cache_wrapper[object]]:
    return isinstance(thing, functools._lru_cache_wrapper)  # noqa: SLF001 - its only name


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _changed_constants(old: dict[str, object], new: dict[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in new.items():
        if not name.startswith("__") and name in old and _is_plain(value) and value != old[name]:
            yield name, value


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(k) and _is_plain(v) for k, v in value.items())
    if isinstance(value, tuple | list | set | frozenset):
        return type(value) in (tuple, list, set, frozenset) and all(map(_is_plain, value))
    return type(value) in _PLAIN


# The sure way -----------------------------------------------------------------------------------


class Planter(MetaPathFinder, Loader):
    """Answers the import of one module with its mutant."""

    def __init__(self, root: Path, module: Module, mutant: Mutant) -> None:
        self._path = root / mutant.file
        self._name = module_name(mutant.file)
        with mutant.planted():
            self._code = compile(module.tree, str(self._path), "exec")

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(self._path))

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(self._code, module.__dict__)  # noqa: S102 - that is what a mutant is for


def names_used(code: types.CodeType) -> frozenset[str]:
    """Every global and attribute that this code, or code inside it, asks for by name."""
    return frozenset(name for inner in _codes(code) for name in inner.co_names)


def lines_of(code: types.CodeType) -> range:
    """From the first line of this code, and of code inside it, through the last."""
    lines = [line for inner in _codes(code) for _, _, line in inner.co_lines() if line]
    return range(min(lines), max(lines) + 1) if lines else range(0)


def functions_of(file: Path) -> Iterator[types.CodeType]:
    """The code of every outermost function of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for code in compile(tree, str(file), "exec").co_consts:
        if isinstance(code, types.CodeType):
            yield code


def constants_of(file: Path) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """The names that each statement of a module defines, with the names it makes them from."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined = frozenset(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
            yield defined, frozenset(n.id for n in ast.walk(node.value) if isinstance(n, ast.Name))
