"""What one check found: how bad it is, the fact, and what to do about it.

Values only. A fact and a fix are one line each, for people; `name` and `level` are stable, for programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from egress.errors import EgressError


class Level(StrEnum):
    """How bad it is. Only a fault makes the whole a failure."""

    OK = "ok"
    NOTE = "note"
    """It is worth knowing, and neither good nor bad: what was not looked at is told so, too."""
    WARNING = "warning"
    """It works, and not as well or as safely as it should."""
    FAULT = "fault"
    """The proxy does not start with it, or something that the rules promise does not work."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What one check found."""

    name: str
    """What was looked at: a package, a secret, a host."""
    level: Level
    fact: str
    fix: str = ""
    """What to do; never empty where the level is a warning or a fault."""


@dataclass(frozen=True, slots=True)
class DiagnosisGroup:
    """The diagnoses about one subject, in the order in which they are told."""

    name: str
    diagnoses: tuple[Diagnosis, ...]


def ok(name: str, fact: str) -> Diagnosis:
    """It is as it should be."""
    return Diagnosis(name, Level.OK, fact)


def note(name: str, fact: str, fix: str = "") -> Diagnosis:
    """It is neither good nor bad."""
    return Diagnosis(name, Level.NOTE, fact, fix)


def warning(name: str, fact: str, fix: str) -> Diagnosis:
    """It could be better."""
    return Diagnosis(name, Level.WARNING, fact, fix)


def fault(name: str, fact: str, fix: str) -> Diagnosis:
    """It is wrong."""
    return Diagnosis(name, Level.FAULT, fact, fix)


def from_error(name: str, error: EgressError, *, level: Level = Level.FAULT, fix: str = "") -> Diagnosis:
    """An error of ours as a diagnosis; `fix` stands in for a hint that it does not have."""
    return Diagnosis(name, level, error.message, error.hint or fix or "see what it names")


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_some(items: list[str], most: int = 5) -> str:
    """The first of the items, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
