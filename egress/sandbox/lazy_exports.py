"""The public names of `egress`, imported at their first use, so that `import egress` stays fast.

The names stand in one list, `egress/__init__.pyi`, which type checkers read as well.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r"^from (\S+) import (\w+$|\([^)]*\))", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")
STUB: Final = Path(__file__).parents[1] / "__init__.pyi"


@functools.cache
def homes() -> Mapping[str, str]:
    """Return the module of each name."""
    found = _IMPORT.findall(STUB.read_text(encoding="utf-8"))
    return {name: module for module, listed in found for name in _NAME.findall(listed)}


def attribute(name: str) -> object:
    """Return a public name of `egress`. Raises `AttributeError`."""
    home = homes().get(name)
    if home is None:
        raise AttributeError(f"module 'egress' has no attribute {name!r}", name=name, obj=None)
    found: object = getattr(importlib.import_module(home), name)
    return found


def names() -> list[str]:
    """Return all public names of `egress`."""
    return sorted([*homes(), "__version__"])
