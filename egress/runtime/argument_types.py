"""Checks the types of arguments, so that a wrong one is named where it was passed."""

from __future__ import annotations

from collections.abc import Mapping

from egress.runtime.errors import SpecTypeError


def check_type(what: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Refuse a value of another type, without quoting it. Raises `SpecTypeError`.

    `expected` says in words what is accepted, such as "a string".
    """
    # A boolean is an integer in Python, and is no number here.
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise SpecTypeError(f"{what} is {_describe(value)}, and not {expected}", f"pass {expected}")


def check_text(what: str, value: object) -> None:
    """Refuse what is not a string. Raises `SpecTypeError`."""
    check_type(what, value, str, "a string")


def check_number(what: str, value: object) -> None:
    """Refuse what is not a number. Raises `SpecTypeError`."""
    check_type(what, value, (int, float), "a number")


def check_whole_number(what: str, value: object) -> None:
    """Refuse what is not a whole number. Raises `SpecTypeError`."""
    check_type(what, value, int, "a whole number")


def check_text_mapping(what: str, values: object) -> None:
    """Refuse what is not a mapping of strings to strings. Raises `SpecTypeError`."""
    check_type(what, values, Mapping, 'a mapping such as {"NAME": "value"}')
    if isinstance(values, Mapping):
        for name, value in values.items():
            check_text(f"{what}: a name", name)
            check_text(f"{what}: a value", value)


def _describe(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
