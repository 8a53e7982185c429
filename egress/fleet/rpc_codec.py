"""Values of a runtime as JSON, and back: the reading side gets an equal value.

A dataclass becomes an object with all its fields, so no field of a later version is forgotten on one side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from egress import errors as ours
from egress.errors import EgressError
from egress.fleet import errors as of_fleets
from egress.fleet.errors import FleetFaultError
from egress.fleet.json_fields import JsonFields, read
from egress.runtime import errors as of_runtimes
from egress.runtime.spec import Command, ExecResult

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = dict[str, object]

# The caller's side keeps a command's input and its output limit.
_COMMAND_ASIDE: Final = ("input", "most_output")
# Output goes ahead of the result, in frames of its own.
_RESULT_ASIDE: Final = ("stdout_bytes", "stderr_bytes", "truncated")


def write(value: DataclassInstance, without: tuple[str, ...] = ()) -> Json:
    """The JSON object of a dataclass, without some of its fields."""
    names = (field.name for field in fields_of(value) if field.name not in without)
    return {name: _plain(getattr(value, name)) for name in names}


def write_command(command: Command) -> Json:
    """Every field but the input and the output limit, which the caller's side keeps."""
    return write(command, _COMMAND_ASIDE)


def read_command(fields: JsonFields, most_output: int) -> Command:
    """Read a command whose input comes in frames of its own."""
    return read(Command, fields, input=None, most_output=most_output)


def write_result(result: ExecResult) -> Json:
    """Every field but the output, which was sent before."""
    return write(result, _RESULT_ASIDE)


def read_result(fields: JsonFields, stdout: bytes, stderr: bytes, *, truncated: bool) -> ExecResult:
    """Read a result, and add the output that was received before."""
    return read(ExecResult, fields, stdout_bytes=stdout, stderr_bytes=stderr, truncated=truncated)


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return write(value)
    # A new kind of field must be added here on purpose, not sent in some form by chance.
    raise TypeError(f"no JSON form for {type(value).__name__}")


# Errors cross the socket by code, and are raised as the same class with the same text.


def write_error(error: BaseException) -> dict[str, object]:
    """The error for the other side.

    An unexpected exception is reduced to its class name: its text may hold secrets.
    """
    if not isinstance(error, EgressError) or error.code not in _ERROR_CLASSES:
        error = FleetFaultError(
            f"the process that serves sandboxes failed ({type(error).__name__})", "see its log"
        )
    return {"code": error.code, "message": error.message, "hint": error.hint}


def read_error(fields: JsonFields) -> EgressError:
    """The error that was written there."""
    code, message, hint = fields.text("code"), fields.text("message"), fields.text("hint")
    fields.end()
    return _ERROR_CLASSES.get(code, FleetFaultError)(message, hint)


def _list_error_classes() -> Iterator[tuple[str, type[EgressError]]]:
    for module in (ours, of_runtimes, of_fleets):
        for each in vars(module).values():
            is_one = isinstance(each, type) and issubclass(each, EgressError)
            # A class without its own code is sent as its parent.
            if is_one and each.__module__ == module.__name__ and "code" in vars(each):
                yield each.code, each


_ERROR_CLASSES: Final[Mapping[str, type[EgressError]]] = dict(_list_error_classes())
