"""Read items of `use:`: which preset, by which name, with which arguments, and without which denies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from egress.rules.language.document import Document, MissingValue, Value
from egress.rules.language.report import DocumentCursor, did_you_mean, quoted

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_OPTIONS = ("as", "without")


@dataclass(frozen=True, slots=True, eq=False)
class PresetUse:
    """One use of a preset."""

    preset: str
    name: str
    """The name that its rules carry: that of the preset, or the one behind `as`."""
    arguments: dict[str, Value]
    at: DocumentCursor
    without: dict[str, DocumentCursor] = field(default_factory=dict)
    """The denies that the file lifts, as written, with their places."""

    def lifts(self, deny: str) -> str:
        """Return the id under which the file lifts this deny of the preset; empty if it does not."""
        return next((name for name in (deny, f"{self.name}-{deny}") if name in self.without), "")


def read_use(value: Value, at: DocumentCursor, presets: Collection[str]) -> PresetUse | None:
    """Read an item of the list; return None after reporting its mistakes."""
    if isinstance(value, MissingValue):
        return None
    if isinstance(value, str):
        return PresetUse(value, value, {}, at) if _is_known(value, at, presets) else None
    options = {key: item for key, item in value.items() if key in _OPTIONS} if isinstance(value, dict) else {}
    names = [key for key in value if key not in _OPTIONS] if isinstance(value, dict) else []
    if not isinstance(value, dict) or len(names) != 1:
        at.error(
            "an item of `use` must be a name, or a name with its parameters",
            "write - github or - github: {...}",
        )
        return None
    (preset,) = names
    arguments = value[preset]
    if not _is_known(preset, at, presets) or isinstance(arguments, MissingValue):
        return None
    if not isinstance(arguments, dict):
        at.error(f"the parameters of {preset} must be a mapping", "write {parameter: value}")
        return None
    before = len(at.report.findings)
    name = _name(options.get("as", preset), at / "as")
    without = _without(options.get("without", []), at / "without")
    # An item with any finding is dropped: a deny whose name is misspelt must not be lifted or kept by guess.
    return PresetUse(preset, name, arguments, at, without) if len(at.report.findings) == before else None


def check_lifted(use: PresetUse, preset: Document) -> None:
    """Say which denies of the expanded preset the file lifts; report a name that is none of them."""
    hosts = preset.value.get("hosts") if isinstance(preset.value, dict) else None
    denies = {
        str(rule.get("id")): str(rule.get("reason") or "")
        for entry in (hosts.values() if isinstance(hosts, dict) else ())
        for rule in _denies(entry)
    }
    lifted = {use.lifts(name): (name, reason) for name, reason in denies.items()}
    for written, at in use.without.items():
        if written not in lifted:
            at.error(f"{use.preset} has no deny {quoted(written)}", did_you_mean(written, denies))
            continue
        name, reason = lifted[written]
        at.report.notice(
            at.place,
            f"the deny {use.name}-{name} of the preset is lifted, and denies nothing",
            f"it would say: {reason}" if reason else "",
        )


def _denies(entry: Value) -> Iterator[dict[str, Value]]:
    rules = entry.get("deny") if isinstance(entry, dict) else None
    yield from (rule for rule in (rules if isinstance(rules, list) else ()) if isinstance(rule, dict))


def _is_known(preset: str, at: DocumentCursor, presets: Collection[str]) -> bool:
    if preset in presets:
        return True
    at.error(f"unknown preset {quoted(preset)}", did_you_mean(preset, presets))
    return False


def _name(value: Value, at: DocumentCursor) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        at.error("`as` must be a name", "names are lower case: a letter, then letters, digits and -")
        return ""
    return value


def _without(value: Value, at: DocumentCursor) -> dict[str, DocumentCursor]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        at.error(
            "`without` must be a list of deny rules", "write [id], with ids as `egress rules show` has them"
        )
        return {}
    return {str(item): at / number for number, item in enumerate(value)}
