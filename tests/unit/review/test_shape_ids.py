"""Numbers of shapes: given once, whatever is forgotten in between."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from egress.review.fast_parse import Form, read, shape_of_form
from egress.review.line_shape import shape_of
from egress.review.schema import open_to_write
from egress.review.shape_ids import ShapeIds
from tests.unit.audit.sample import files
from tests.unit.review.sample import write


def test_equal_shapes_have_one_number_however_they_are_given(tmp_path: Path) -> None:
    write(tmp_path / "log")
    connection = open_to_write(tmp_path / "index")
    numbering = ShapeIds(connection)
    forms = [read(line)[0] for line in files(tmp_path / "log")[0].read_bytes().splitlines()]
    found = [numbering(form) for form in forms]
    assert len(set(found)) == 7, "two are alike"
    assert found[1] == found[2]
    with patch("egress.review.shape_ids.MOST", 1):
        assert [ShapeIds(connection)(form) for form in forms * 2] == found * 2
    shapes = [shape_of_form(form) if isinstance(form, Form) else form for form in forms]
    assert [numbering(shape) for shape in shapes] == found
    connection.close()


def test_what_is_not_told_apart_by_totals_is_one_group(tmp_path: Path) -> None:
    connection = open_to_write(tmp_path / "index")
    numbering = ShapeIds(connection)
    get = numbering(shape_of({"event": "exchange", "method": "GET"}))
    post = numbering(shape_of({"event": "exchange", "method": "POST"}))
    assert get[0] != post[0]
    assert get[1] == post[1]
    connection.close()


def test_pieces_of_no_shape_are_refused(tmp_path: Path) -> None:
    connection = open_to_write(tmp_path / "index")
    with pytest.raises(ValueError, match="Expecting"):
        ShapeIds(connection)(Form(b"{", b"{", b"{", b"{"))
    connection.close()
