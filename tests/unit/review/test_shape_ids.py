"""Numbers of shapes: given once, whatever is forgotten in between."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from egress.review.indexed_line import read
from egress.review.line_shape import shape_of
from egress.review.schema import open_to_write
from egress.review.shape_ids import ShapeIds
from tests.unit.audit.sample import files
from tests.unit.review.sample import write


def test_equal_shapes_have_one_number_however_they_are_given(tmp_path: Path) -> None:
    write(tmp_path / "log")
    connection = open_to_write(tmp_path / "index")
    numbering = ShapeIds(connection)
    shapes = [read(line).shape for line in files(tmp_path / "log")[0].read_bytes().splitlines()]
    found = [numbering(shape) for shape in shapes]
    assert len(set(found)) == 7, "two are alike"
    assert found[1] == found[2]
    with patch("egress.review.shape_ids.MAX_KEPT", 1):
        assert [ShapeIds(connection)(shape) for shape in shapes * 2] == found * 2
    connection.close()


def test_what_is_not_told_apart_by_totals_is_one_group(tmp_path: Path) -> None:
    connection = open_to_write(tmp_path / "index")
    numbering = ShapeIds(connection)
    get = numbering(shape_of({"event": "exchange", "method": "GET"}))
    post = numbering(shape_of({"event": "exchange", "method": "POST"}))
    assert get[0] != post[0]
    assert get[1] == post[1]
    connection.close()
