"""The presets bundled with Egress: YAML texts inside the package, by name.

Presets are data. Their meaning, and the allowed parameters, are up to `egress.rules`.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUFFIX = ".yaml"


@cache
def preset_texts() -> Mapping[str, str]:
    """Return the text of every bundled preset by name, in alphabetical order."""
    folder = resources.files("egress.policy") / "presets"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(_SUFFIX)), key=lambda f: f.name)
    # Read-only, because the cache hands the same mapping to every caller.
    return MappingProxyType({file.name.removesuffix(_SUFFIX): file.read_text("utf-8") for file in files})
