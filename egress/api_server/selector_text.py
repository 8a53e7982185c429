"""The selectors in the query of a list or a watch, read as Kubernetes reads them, and strictly.

`a=b,c!=d,e,!f,g in (x,y),h notin (x)`: all parts have to hold. A part that cannot be read is an error and
never a part that selects everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from egress.api_server.call import UnfitRequestError

_MAX_SELECTOR_CHARS: Final = 4096
_KEY: Final = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
LABEL_KEY_PATTERN: Final = re.compile(_KEY)
LABEL_VALUE_PATTERN: Final = re.compile(_VALUE)
_PART_PATTERN: Final = re.compile(
    rf"""\ *(?:
      (?P<absent>!)\ *(?P<without>{_KEY})
    | (?P<key>{_KEY})(?:\ *(?P<sign>==?|!=)\ *(?P<value>{_VALUE})
        | \ +(?P<word>in|notin)\ *\((?P<values>\ *{_VALUE}\ *(?:,\ *{_VALUE}\ *)*)\))?
    )\ *(?:,|\Z)""",
    re.VERBOSE,
)
_FIELD_PATTERN: Final = re.compile(r"metadata\.name={1,2}(?P<name>[-a-z0-9.]{1,253})")

LabelTest = Callable[[Mapping[str, str]], bool]


def read_label_selector(text: str) -> LabelTest:
    """Return what tells whether labels are selected. Raises `UnfitRequestError`."""
    tests: list[LabelTest] = []
    place = 0
    if len(text) > _MAX_SELECTOR_CHARS:
        raise UnfitRequestError("labelSelector is too long", "select by fewer labels")
    while place < len(text):
        found = _PART_PATTERN.match(text, place)
        if found is None or (found.end() == len(text) and text.endswith(",")):
            raise UnfitRequestError("labelSelector cannot be read", "write name=value, with commas between")
        tests.append(_label_test(found))
        place = found.end()
    return lambda labels: all(test(labels) for test in tests)


def _label_test(found: re.Match[str]) -> LabelTest:
    if found["absent"]:
        without = found["without"]
        return lambda labels: without not in labels
    key = found["key"]
    operator = found["sign"] or found["word"]
    if operator is None:
        return lambda labels: key in labels
    wanted = {found["value"]} if found["sign"] else {each.strip() for each in found["values"].split(",")}
    if operator in ("=", "==", "in"):
        return lambda labels: labels.get(key) in wanted
    # As in Kubernetes, an object without the label is selected by "not".
    return lambda labels: labels.get(key) not in wanted


def read_name_selector(text: str) -> str | None:
    """Return the name that a field selector asks for, none for an empty one. Raises `UnfitRequestError`."""
    if not text:
        return None
    found = _FIELD_PATTERN.fullmatch(text)
    if found is None:
        raise UnfitRequestError(
            "fieldSelector is none that this server has", "write metadata.name=NAME, or leave it out"
        )
    return found["name"]
