"""Errors as they go over the socket of a fleet: by code, and back as the same class with the same text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from egress import errors as ours
from egress.errors import EgressError
from egress.fleet import errors as of_fleets
from egress.fleet.errors import FleetFaultError
from egress.fleet.fields import Fields
from egress.runtime import errors as of_runtimes


def write_error(error: BaseException) -> dict[str, object]:
    """What the other side is told. Of a mistake it is told that there was one, and nothing of it."""
    if not isinstance(error, EgressError) or error.code not in _CLASSES:
        error = FleetFaultError(
            f"the process that serves sandboxes failed ({type(error).__name__})", "look into its log"
        )
    return {"code": error.code, "message": error.message, "hint": error.hint}


def read_error(fields: Fields) -> EgressError:
    """The error that it was there."""
    code, message, hint = fields.text("code"), fields.text("message"), fields.text("hint")
    fields.end()
    return _CLASSES.get(code, FleetFaultError)(message, hint)


def _classes() -> Iterator[tuple[str, type[EgressError]]]:
    for module in (ours, of_runtimes, of_fleets):
        for each in vars(module).values():
            is_one = isinstance(each, type) and issubclass(each, EgressError)
            # A class without a code of its own is told as the one above it.
            if is_one and each.__module__ == module.__name__ and "code" in vars(each):
                yield each.code, each


_CLASSES: Final[Mapping[str, type[EgressError]]] = dict(_classes())
