"""A container is kept as an image while it stands still, under a name of ours, within what is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from egress.runtime.docker import saved_image
from egress.runtime.docker.engine import ContainerGoneError, DockerEngine
from egress.runtime.docker.isolation import DEFAULT_ISOLATION, Isolation
from egress.runtime.errors import (
    ArchiveTooLargeError,
    EngineError,
    SandboxDiedError,
    SpecError,
    UnsupportedError,
)


class NotingEngine:
    """An engine that notes what it is asked for."""

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.asked: list[str] = []
        self.labels: Mapping[str, str] = {}
        self.failure: Exception | None = None

    def pause_container(self, container: str) -> None:
        self.asked.append(f"pause {container}")

    def resume_container(self, container: str) -> None:
        self.asked.append(f"resume {container}")

    def written_bytes(self, container: str) -> int:
        self.asked.append(f"measure {container}")
        return self.size

    def commit(self, container: str, repository: str, tag: str, labels: Mapping[str, str]) -> str:
        self.asked.append(f"commit {container} {repository}:{tag}")
        self.labels = labels
        if self.failure is not None:
            raise self.failure
        return "sha256:1"

    def untag_image(self, name: str) -> None:
        self.asked.append(f"untag {name}")


def save(engine: NotingEngine, tag: str = "first-1", max_bytes: int = 100) -> int:
    return saved_image.save(cast("DockerEngine", engine), "c", f"egress-snapshot:{tag}", max_bytes)


def test_it_stands_still_while_it_is_measured_and_kept() -> None:
    engine = NotingEngine()
    assert save(engine) == 100
    assert engine.asked == ["pause c", "measure c", "commit c egress-snapshot:first-1", "resume c"]
    # Those of its container would make each container of the image a leftover of a dead owner.
    assert engine.labels == {"egress.role": "", "egress.lease": "", "egress.image": "egress-snapshot"}


def test_one_that_has_written_too_much_goes_on_and_is_not_kept() -> None:
    engine = NotingEngine(101)
    with pytest.raises(ArchiveTooLargeError):
        save(engine)
    assert engine.asked == ["pause c", "measure c", "resume c"]


@pytest.mark.parametrize(
    ("failure", "error"),
    [(EngineError("no space"), EngineError), (ContainerGoneError("it is gone"), SandboxDiedError)],
)
def test_one_that_cannot_be_kept_goes_on(failure: Exception, error: type[Exception]) -> None:
    engine = NotingEngine()
    engine.failure = failure
    with pytest.raises(error):
        save(engine)
    assert engine.asked[-1] == "resume c"


@pytest.mark.parametrize("tag", ["", "-x", "A", "a:b", "a/b", "x" * 200, "a b"])
def test_a_name_is_one_of_ours(tag: str) -> None:
    engine = NotingEngine()
    with pytest.raises(SpecError):
        save(engine, tag)
    with pytest.raises(SpecError):
        saved_image.remove(cast("DockerEngine", engine), f"egress-snapshot:{tag}")
    assert engine.asked == []


def test_no_other_image_is_removed() -> None:
    engine = NotingEngine()
    for image in ("debian:stable", "egress-demo:x", "evil/egress-snapshot:x", "egress-snapshot:x\n"):
        with pytest.raises(SpecError):
            saved_image.remove(cast("DockerEngine", engine), image)
    saved_image.remove(cast("DockerEngine", engine), "egress-snapshot:first-1")
    assert engine.asked == ["untag egress-snapshot:first-1"]


def test_what_an_image_would_hold_or_lack_is_refused() -> None:
    saved_image.check("one", (), DEFAULT_ISOLATION)
    saved_image.check("one", (), Isolation(seccomp="{}"))
    with pytest.raises(UnsupportedError, match="canary files"):
        saved_image.check("one", ("~/key",), DEFAULT_ISOLATION)
    with pytest.raises(UnsupportedError, match="runsc"):
        saved_image.check("one", (), Isolation(runtime="runsc"))
