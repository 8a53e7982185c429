"""Shapes: equal where a filter could not tell lines apart."""

from __future__ import annotations

from egress.review.line_shape import key_of, marked, named, shape_of, texts_of_shape, unmarked


def test_what_is_different_in_each_line_is_no_part_of_it() -> None:
    one = {"event": "exchange", "host": "a.example", "path": "/x", "request": "1", "total_us": 5}
    other = {**one, "path": "/y", "request": "2", "total_us": 6}
    assert shape_of(one) == shape_of(other)
    assert key_of(shape_of(one)) == key_of(shape_of(other))
    assert key_of(shape_of(one)) != key_of(shape_of({**one, "host": "b.example"}))


def test_names_are_kept_whole() -> None:
    assert unmarked(marked(("a", "b"))) == ("a", "b")
    assert unmarked(marked(())) == ()
    assert marked(("a\x1fb",)) == marked(("ab",))


def test_its_texts_are_told_once() -> None:
    shape = shape_of(
        {"event": "exchange", "host": "a", "sandbox": "a", "injected": [{"secret": "s"}, {"secret": "t"}]}
    )
    assert sorted(texts_of_shape(shape)) == ["a", "exchange", "s", "t"]


def test_whatever_the_fields_are_a_database_takes_it() -> None:
    shape = shape_of(
        {"event": 1, "host": "\ud800", "status": 2**70, "scrubbed": {"x": 1}, "injected": {"a": 1}}
    )
    values = named(shape)
    assert (values["event"], values["host"], values["status"]) == ("", "\\ud800", 0)
    assert unmarked(str(values["scrubbed"])) == ("x",)
    str(values["host"]).encode()
