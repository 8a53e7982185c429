"""Images of ours that a newer one has taken the place of are removed, at a real engine; others never are."""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Iterator

import pytest

from egress.runtime.docker import image_cache, superseded_images
from egress.runtime.docker.engine import DockerEngine, OwnImage
from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.docker.superseded_images import KEPT_IMAGES, KEPT_NAMES


@pytest.fixture
def repository(engine: DockerEngine) -> Iterator[str]:
    name = f"egress-test-kept-{secrets.token_hex(4)}"
    yield name
    for image in engine.images(f"{IMAGE_LABEL}={name}"):
        engine.remove_image(image.id)


def import_one(engine: DockerEngine, repository: str, tag: str) -> None:
    """An image of one small file, with contents of its own."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo("file")
        entry.size = len(data := secrets.token_bytes(8))
        tar.addfile(entry, io.BytesIO(data))
    made.seek(0)
    engine.import_image(made, repository, tag)


def names(engine: DockerEngine, repository: str) -> set[str]:
    found = {name for image in engine.images(f"{IMAGE_LABEL}={repository}") for name in image.names}
    return {name.removeprefix(f"{repository}:") for name in found}


def at_different_times(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine counts seconds, and a test does not wait: the order is told by the names."""
    listed = engine.images

    def dated(label: str) -> list[OwnImage]:
        return sorted(listed(label), key=lambda image: min(image.names, default=""))

    monkeypatch.setattr(engine, "images", dated)


def test_the_newest_are_kept(engine: DockerEngine, repository: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = [f"{number:02}" for number in range(KEPT_IMAGES + 2)]
    for tag in tags:
        import_one(engine, repository, tag)
    at_different_times(engine, monkeypatch)
    superseded_images.remove_superseded(engine, repository)
    assert names(engine, repository) == set(tags[2:])


def test_what_somebody_has_named_or_uses_stays(
    engine: DockerEngine, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = [f"{number:02}" for number in range(KEPT_IMAGES + 3)]
    for tag in tags:
        import_one(engine, repository, tag)
    engine.tag_image(f"{repository}:00", f"{repository}-mine", "v1")
    used = engine.create_container(f"{repository}-user", {"Image": f"{repository}:01", "Cmd": ["none"]})
    at_different_times(engine, monkeypatch)
    try:
        superseded_images.remove_superseded(engine, repository)
        left = names(engine, repository)
        assert {f"{repository}-mine:v1", "01", *tags[3:]} <= left
        assert not {"00", "02"} & left
    finally:
        engine.remove_container(used)


def test_an_image_of_another_kind_is_not_looked_at(engine: DockerEngine, repository: str) -> None:
    for number in range(KEPT_IMAGES + 1):
        import_one(engine, repository, f"{number:02}")
    superseded_images.remove_superseded(engine, f"{repository}-other")
    assert len(names(engine, repository)) == KEPT_IMAGES + 1


def test_names_by_fingerprint_do_not_pile_up(engine: DockerEngine, repository: str) -> None:
    """Each installation, and each update of the machine, has a fingerprint of its own."""
    import_one(engine, repository, "digest")
    for number in range(3 * KEPT_NAMES):
        seen = f"{number:016}"
        image_cache.find_or_make(engine, repository, seen, lambda: f"{repository}:digest")
        assert f"stat-{seen}" in names(engine, repository)
    assert "digest" in names(engine, repository)
    assert len(names(engine, repository)) <= KEPT_NAMES + 2
