"""Read `--param NAME=VALUE`: the values of a sandbox for parameters of the rules."""

from __future__ import annotations

from collections.abc import Iterable

from egress.errors import UsageError
from egress.types import Parameters, parameters_of


def read_parameters(texts: Iterable[str]) -> Parameters:
    """Return the values by name, each name once. Raises `UsageError`, which quotes no value."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("--param needs NAME=VALUE", "for example --param repo=acme/site")
        if name in found:
            raise UsageError(f"--param names {name!r} twice", "give each parameter one value")
        found[name] = value
    return parameters_of(found)
