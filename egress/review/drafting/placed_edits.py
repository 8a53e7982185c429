"""Edits of rule files that find their place by what a file says: an entry, a list, a secret, a section.

An edit looks for its place when it is applied, in the texts as they are then, so that several can follow each
other. It is None where no place in the text is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egress.review.drafting.rule_file_edit import RuleFileEdit, RuleFileText, new_section
from egress.rules.compile.load import RuleText
from egress.rules.compile.policy_writer import Fields, Json
from egress.rules.compile.single_rules import IMPLICIT_RULE_ID, PREDICATE_KEYS, SWITCH_KEYS
from egress.rules.decide.entry import Entry
from egress.rules.language.document import Value, ValuePath
from egress.rules.language.hosts import HostError, parse_host_pattern

Edit = Callable[[Sequence[RuleText]], RuleFileEdit | None]


def written_entry(sources: Sequence[RuleText], entry: Entry) -> tuple[ValuePath, dict[str, Value] | None]:
    """Return the path and the text of an entry in the files; no text if only presets describe it."""
    for source in sources:
        text = RuleFileText(source)
        hosts, networks = text.value(("hosts",)), text.value(("networks",))
        for key, value in hosts.items() if isinstance(hosts, dict) else ():
            if _is_key_of(key, entry) and isinstance(value, dict):
                return ("hosts", key), value
        for number, item in enumerate(networks if isinstance(networks, list) else ()):
            if entry.pattern is None and isinstance(item, dict) and item.get("cidr") == entry.key:
                return ("networks", number), item
    return (), None


def _is_key_of(key: str, entry: Entry) -> bool:
    try:
        return entry.pattern is not None and parse_host_pattern(key) == entry.pattern
    except HostError:
        return False


def key_edit(path: ValuePath, key: str, value: Json) -> Edit:
    """Add a key to a mapping; a section that no file has is made."""

    def edit(sources: Sequence[RuleText]) -> RuleFileEdit | None:
        text = _holding(sources, path)
        if text is not None:
            return text.add_key(path, key, value)
        return new_section(sources, str(path[0]), {key: value}) if len(path) == 1 else None

    return edit


def item_edit(path: ValuePath, item: Json) -> Edit:
    """Add an item to a list; a section that no file has is made."""

    def edit(sources: Sequence[RuleText]) -> RuleFileEdit | None:
        text = _holding(sources, path)
        if text is not None:
            return text.add_item(path, item)
        return new_section(sources, str(path[0]), [item]) if len(path) == 1 else None

    return edit


def word_edit(path: ValuePath, word: str, value: Json) -> Edit:
    """Replace a value that is a single word."""

    def edit(sources: Sequence[RuleText]) -> RuleFileEdit | None:
        text = _holding(sources, path)
        return None if text is None else text.replace_word(path, word, value)

    return edit


def listing_edit(path: ValuePath, own: dict[str, Value], rule: Fields) -> Edit:
    """Turn the predicates that stand on an entry into its rule `host`, beside another rule."""
    moved = (*PREDICATE_KEYS, *SWITCH_KEYS)
    host: Fields = {"id": IMPLICIT_RULE_ID, **{name: _plain(own[name]) for name in moved if name in own}}
    kept = {name: _plain(item) for name, item in own.items() if name not in (*moved, "allow")}
    value: Fields = {"allow": [host, rule], **kept}

    def edit(sources: Sequence[RuleText]) -> RuleFileEdit | None:
        text = _holding(sources, path)
        return None if text is None else text.rewrite(path, value)

    return edit


def _plain(value: Value) -> Json:
    """Return a value of a file as one that can be written; a sound file has no other."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int) else str(value)


def _holding(sources: Sequence[RuleText], path: ValuePath) -> RuleFileText | None:
    """Return the file that has a value at a path."""
    texts = (RuleFileText(source) for source in sources)
    return next((text for text in texts if text.value(path) is not None), None)
