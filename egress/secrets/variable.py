"""A secret from an environment variable, captured once when the process started (see `environ`)."""

from __future__ import annotations

from collections.abc import Mapping

from egress.errors import UnreadableError
from egress.secrets.lifetime import FOR_EVER, Lifetime
from egress.secrets.value import Value


class VariableSource:
    """One variable of the start environment; it cannot change, so `ttl` has no meaning for it."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, Value]) -> None:
        self._name = name
        self._values = values

    def lifetime(self, ttl: int | None) -> Lifetime:  # noqa: ARG002 - the contract of a source
        return FOR_EVER

    def look(self) -> Value:
        value = self._values.get(self._name)
        if value is None:
            raise UnreadableError(
                f"the variable {self._name} was not set, or not named by the rules, when Egress started",
                "set it and start again; for a value that changes use `file:` or `command:`",
            )
        return value

    def stop(self) -> None:
        """Do nothing: a look takes no time."""
