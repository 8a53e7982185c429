"""A selector selects what Kubernetes would select, and what cannot be read selects nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api_server.call import UnfitRequestError
from egress.api_server.selector_text import read_label_selector, read_name_selector

LABELS = {"app": "web", "tier": "", "example.com/team": "a-b.c"}
keys = st.sampled_from(["app", "tier", "example.com/team", "none"])
values = st.sampled_from(["web", "", "a-b.c", "x"])
spaces = st.sampled_from(["", " ", "  "])


@st.composite
def parts(draw: st.DrawFn) -> tuple[str, bool]:
    """A part of a selector in some spelling, and whether it selects."""
    key, one, other, gap = draw(keys), draw(values), draw(values), draw(spaces)
    held = LABELS.get(key)
    text, is_selected = draw(
        st.sampled_from(
            [
                (f"{key}{gap}={gap}{one}", held == one),
                (f"{key}{gap}=={gap}{one}", held == one),
                (f"{key}{gap}!={gap}{one}", held != one),
                (key, held is not None),
                (f"!{gap}{key}", held is None),
                (f"{key} {gap}in {gap}({gap}{one}{gap},{gap}{other}{gap})", held in (one, other)),
                (f"{key} notin({one})", held != one),
            ]
        )
    )
    return f"{draw(spaces)}{text}{draw(spaces)}", is_selected


@given(st.lists(parts(), max_size=4))
def test_all_parts_have_to_hold(found: list[tuple[str, bool]]) -> None:
    text = ",".join(part for part, _ in found)
    assert read_label_selector(text)(LABELS) == all(is_selected for _, is_selected in found)


@given(st.text("a=!,() in/.-\n\x00", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_label_selector(text)(LABELS)
        read_name_selector(text)
    except UnfitRequestError:
        return


@pytest.mark.parametrize(
    "text",
    [
        *(
            ",",
            "a,",
            ",a",
            "a,,b",
            "=a",
            "a=b=c",
            "a===b",
            "a in",
            "a in b",
            "a in ()x",
            "a in (b",
            "a ina(b)",
        ),
        *("a b", "!", "!a=b", "a!b", "a>1", "a=b c", "a/b/c", "a=\n", "a\n", "-a", "a=-b", "x" * 5000),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(UnfitRequestError):
        read_label_selector(text)
    assert read_label_selector("")({})


@pytest.mark.parametrize(
    "text", ["metadata.name", "metadata.name=", "metadata.name=A", "metadata.name!=a", "metadata.name=a,b=c"]
)
def test_a_field_selector_names_one_object(text: str) -> None:
    with pytest.raises(UnfitRequestError):
        read_name_selector(text)
    assert read_name_selector("metadata.name=a") == read_name_selector("metadata.name==a") == "a"
    assert read_name_selector("") is None
