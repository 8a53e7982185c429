"""The result of a check: its level, the fact, and the cure.

Values only. Fact and fix are one line each, for people; `name` and `level` are stable, for programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from egress.errors import EgressError


class Level(StrEnum):
    """The severity. Only a fault makes the whole run fail."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing, neither good nor bad; also used for skipped checks."""
    WARNING = "warning"
    """Works, but not as well or as safely as it should."""
    FAULT = "fault"
    """The proxy does not start, or a promise of the rules does not hold."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of a check."""

    name: str
    """The subject: a package, a secret, a host."""
    level: Level
    fact: str
    fix: str = ""
    """The cure; never empty for a warning or a fault."""


@dataclass(frozen=True, slots=True)
class DiagnosisGroup:
    """The diagnoses of one subject, in the order of the report."""

    name: str
    diagnoses: tuple[Diagnosis, ...]


def ok(name: str, fact: str) -> Diagnosis:
    """Return a diagnosis: as it should be."""
    return Diagnosis(name, Level.OK, fact)


def note(name: str, fact: str, fix: str = "") -> Diagnosis:
    """Return a diagnosis: neither good nor bad."""
    return Diagnosis(name, Level.NOTE, fact, fix)


def warning(name: str, fact: str, fix: str) -> Diagnosis:
    """Return a diagnosis: could be better."""
    return Diagnosis(name, Level.WARNING, fact, fix)


def fault(name: str, fact: str, fix: str) -> Diagnosis:
    """Return a diagnosis: wrong."""
    return Diagnosis(name, Level.FAULT, fact, fix)


def from_error(name: str, error: EgressError, *, level: Level = Level.FAULT, fix: str = "") -> Diagnosis:
    """Turn an error into a diagnosis; `fix` is used if the error has no hint."""
    return Diagnosis(name, level, error.message, error.hint or fix or "check the file or option it names")


def counted(number: int, noun: str) -> str:
    """Return `1 line`, `2 lines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_some(items: list[str], limit: int = 5) -> str:
    """Return the first items, and the number of the remaining ones."""
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more} more" if more > 0 else "")
