"""An edit of a rule file adds exactly what it says, whatever the style of the text around it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

from hypothesis import event, given
from hypothesis import strategies as st

from egress.review.drafting.rule_file_edit import RuleFileText, apply_edit
from egress.rules.compile.load import RuleText
from egress.rules.compile.policy_writer import Json, flow, scalar
from egress.rules.language.document import ValuePath, read

KEYS = st.sampled_from(["a", "b c", "host.example", "*.x.example", "é", "no", "7", "a: b", "#"])
LEAVES = st.one_of(
    st.integers(0, 99), st.booleans(), st.sampled_from(["x", "GET", "/a/**", "yes", "a # b", ""])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
FILES = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)
Style = Callable[[Sequence[str]], str]
"""Chooses how something is written."""
NEW: Json = {"id": "new", "paths": ["/x"]}


def written(value: Json, style: Style, indent: str = "") -> Iterator[str]:
    """A value below its key: in a block or in braces, with comments and blank lines, as people do."""
    if style(["braces", "block"]) == "braces" or not isinstance(value, dict | list) or not value:
        yield f" {flow(value)}{style(['', '  # c'])}\n"
        return
    yield style(["\n", "  # c\n", "\n\n", f"\n{indent}# c\n"])
    deeper = indent + style(["  ", "    "])
    for key, item in value.items() if isinstance(value, dict) else ((None, item) for item in value):
        if key is not None:
            yield f"{deeper}{scalar(key)}:"
        elif isinstance(item, dict) and item and style(["dash", "braces"]) == "dash":
            # The first key stands behind the dash.
            first, *rest = item.items()
            yield f"{deeper}- {scalar(first[0])}:"
            yield from written(first[1], style, deeper + "  ")
            for name, other in rest:
                yield f"{deeper}  {scalar(name)}:"
                yield from written(other, style, deeper + "  ")
            continue
        else:
            yield f"{deeper}- {flow(item)}\n"
            continue
        yield from written(item, style, deeper)


def paths(value: Json, path: ValuePath = ()) -> Iterator[tuple[ValuePath, Json]]:
    """Every mapping and list of a value, with its path."""
    if isinstance(value, dict | list):
        yield path, value
    for step, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from paths(item, (*path, step))


@given(FILES, st.data())
def test_a_key_or_an_item_is_added_and_nothing_else_changes(
    value: dict[str, Json], data: st.DataObject
) -> None:
    def style(options: Sequence[str]) -> str:
        return data.draw(st.sampled_from(options))

    text = "".join(f"{scalar(key)}:{''.join(written(item, style))}" for key, item in value.items())
    before, findings = read("h", text)
    assert (findings, before.value) == ([], value), text
    path, place = data.draw(st.sampled_from(list(paths(value))))
    file = RuleFileText(RuleText("h", text))
    edit = file.add_key(path, "new key", NEW) if isinstance(place, dict) else file.add_item(path, NEW)
    event(f"{type(place).__name__}: {'no place' if edit is None else 'edited'}")
    if edit is None:
        return
    (changed,) = apply_edit([RuleText("h", text)], edit)
    wanted = copy.deepcopy(value)
    at: Json = wanted
    for step in path:
        at = at[step]  # type: ignore[index]
    if isinstance(at, dict):
        at["new key"] = NEW
    elif isinstance(at, list):
        at.insert(0, NEW)
    after, findings = read("h", changed.text)
    assert (findings, after.value) == ([], wanted), (text, changed.text)
