"""An image has the name of what it is made of. That images are built is for tests/container."""

from __future__ import annotations

from typing import cast

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import product_images, recipes
from egress.runtime.errors import ImageMissingError


class Shelf:
    """An engine that knows some images, and can make none."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def image_id(self, name: str) -> str:
        if name not in self.names:
            raise ImageMissingError(name)
        return f"sha256:{name}"


def engine(*names: str) -> DockerEngine:
    return cast("DockerEngine", Shelf(*names))


def test_another_base_makes_another_image() -> None:
    recipe = recipes.for_sandbox()
    shelf = engine("one", "two")
    one, two = (product_images._name(shelf, "box", recipe, base) for base in ("one", "two"))
    assert one.startswith("box:")
    assert one != two
    assert one == product_images._name(shelf, "box", recipe, "one")


def test_a_base_that_is_not_there_is_left_to_the_engine() -> None:
    recipe = recipes.for_sandbox()
    assert product_images._name(engine(), "box", recipe, "debian:stable-slim").startswith("box:")


@pytest.mark.parametrize(
    "make",
    [
        product_images.proxy_image,
        product_images.sandbox_image,
        product_images.agents_image,
        product_images.door_image,
    ],
)
def test_what_is_there_is_taken(make: object) -> None:
    repository, recipe = {
        product_images.proxy_image: (product_images.PROXY_REPOSITORY, recipes.for_proxy()),
        product_images.sandbox_image: (product_images.SANDBOX_REPOSITORY, recipes.for_sandbox()),
        product_images.agents_image: (product_images.AGENTS_REPOSITORY, recipes.for_agents()),
        product_images.door_image: (product_images.DOOR_REPOSITORY, recipes.for_door()),
    }[make]  # type: ignore[index]
    name = product_images._name(engine("base"), repository, recipe, "base")
    said: list[str] = []
    assert make(engine("base", name), "base", said.append) == name  # type: ignore[operator]
    assert said == []


@pytest.mark.parametrize(
    ("name", "repository", "tag"),
    [
        ("mine", "mine", "latest"),
        ("mine:2", "mine", "2"),
        ("registry.example.com:5000/team/mine", "registry.example.com:5000/team/mine", "latest"),
        ("registry.example.com:5000/team/mine:2", "registry.example.com:5000/team/mine", "2"),
    ],
)
def test_a_name_of_ones_own_may_have_a_tag_and_a_registry(name: str, repository: str, tag: str) -> None:
    class Tagging(Shelf):
        def tag_image(self, *words: str) -> None:
            self.tagged = words

    tagging = Tagging()
    product_images.tag_for_user(cast("DockerEngine", tagging), "made", name)
    assert tagging.tagged == ("made", repository, tag)
