"""Names that a package re-exports, each imported at its first use.

Importing one module of a package runs the package's `__init__`. If that imported every module, a command that
needs one would load them all. The names stand in one list, the package's `__init__.pyi`, which type checkers
read as well. No name can be that of a module of the package: the import system sets that attribute.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r"^from (\S+) import (\w+(?:, \w+)*$|\([^)]*\))", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")
_ROOT: Final = Path(__file__).parent


def stub(package: str) -> Path:
    """Return the file with the names of a package."""
    return _ROOT.joinpath(*package.split(".")[1:], "__init__.pyi")


@functools.cache
def homes(package: str) -> Mapping[str, str]:
    """Return the module of each name that a package re-exports."""
    found = _IMPORT.findall(stub(package).read_text(encoding="utf-8"))
    return {name: module for module, listed in found for name in _NAME.findall(listed)}


def lazy_names(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package, which raises `AttributeError` for a name that is not listed."""

    def load(name: str) -> object:
        # The import system asks for special names first, and none of them is ever listed.
        home = None if name.startswith("__") else homes(package).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=None)
        found: object = getattr(importlib.import_module(home), name)
        return found

    return load
