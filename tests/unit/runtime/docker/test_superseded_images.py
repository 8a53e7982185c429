"""Which images and names go. That an engine removes them, and what it keeps, is for tests/container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from egress.runtime.docker.engine import DockerEngine, OwnImage
from egress.runtime.docker.superseded_images import (
    KEPT_IMAGES,
    KEPT_NAMES,
    remove_old_names,
    remove_stages,
    remove_superseded,
)
from egress.runtime.errors import EngineError


class ImageList:
    """An engine as far as it lists images and takes names away."""

    def __init__(self, images: Sequence[OwnImage] = (), *, refuses: str = "") -> None:
        self._images = images
        self._refuses = refuses
        self.removed: list[str] = []

    def images(self, label: str) -> Sequence[OwnImage]:
        assert label == "egress.image=box"
        return self._images

    def untag_image(self, name: str) -> None:
        if name == self._refuses:
            raise EngineError("it is in use", "stop its container")
        self.removed.append(name)


def engine(found: ImageList) -> DockerEngine:
    return cast("DockerEngine", found)


def built(*created: int) -> list[OwnImage]:
    return [OwnImage(f"id{each}", (f"box:{each}",), each) for each in created]


def test_the_newest_stay_whatever_the_order_of_the_list() -> None:
    found = ImageList(built(5, 1, 4, 2, 3))
    remove_superseded(engine(found), "box")
    assert found.removed == ["box:1", "box:2"]
    assert len(built(5, 1, 4, 2, 3)) - len(found.removed) == KEPT_IMAGES


def test_a_name_that_is_not_ours_stays() -> None:
    """And the one that users know: it moves to the new image when that is named."""
    old = OwnImage("id0", ("mine:v1", "box:latest", "box:0", "boxer:0"), 0)
    found = ImageList([old, *built(1, 2, 3)])
    remove_superseded(engine(found), "box")
    assert found.removed == ["box:0"]


def test_an_image_in_use_does_not_keep_the_others() -> None:
    found = ImageList(built(*range(KEPT_IMAGES + 2)), refuses="box:0")
    remove_superseded(engine(found), "box")
    assert found.removed == ["box:1"]


def test_each_stage_is_tried() -> None:
    found = ImageList(refuses="one")
    remove_stages(engine(found), ["one", "two"])
    assert found.removed == ["two"]


@pytest.mark.parametrize(("others", "gone"), [(KEPT_NAMES - 1, 0), (KEPT_NAMES, KEPT_NAMES)])
def test_names_by_fingerprint_go_when_there_are_many(others: int, gone: int) -> None:
    names = tuple(f"box:stat-{number}" for number in range(others))
    images = [OwnImage("id", ("box:digest", "box:stat-now", *names), 1), OwnImage("id2", ("box:stat-x",), 0)]
    found = ImageList(images)
    remove_old_names(engine(found), "box", "box:stat-now", "stat-")
    assert len(found.removed) == gone
    assert set(found.removed) <= set(names)


def test_an_engine_that_lists_nothing_ends_no_command() -> None:
    class Silent(ImageList):
        def images(self, label: str) -> Sequence[OwnImage]:
            raise EngineError("no answer", "see its log")

    remove_superseded(engine(Silent()), "box")
    remove_old_names(engine(Silent()), "box", "box:stat-now", "stat-")
