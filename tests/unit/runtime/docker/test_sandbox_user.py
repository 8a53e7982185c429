"""Which sandboxes have a user of their own, and which keep the default user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egress.runtime.docker import sandbox_user
from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.docker.sandbox_user import ImageOrigin, OwnUsers, has_all_ids, is_own
from egress.runtime.spec import Mount, Spec

OURS = ImageOrigin(frozenset({IMAGE_LABEL}), (f"LABEL {IMAGE_LABEL}=egress-sandbox", "RUN install"))
SPEC = Spec(name="one", image="any")


@pytest.fixture(autouse=True)
def all_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process sees all ids of the machine, also where the tests run in a namespace."""
    monkeypatch.setattr(sandbox_user, "_reads_all_ids", lambda: True)


def users(origin: ImageOrigin = OURS, *, maps: bool = False, is_root: bool = True) -> OwnUsers:
    return OwnUsers(lambda _: origin, lambda: maps, is_root=is_root)


def test_each_sandbox_has_a_user_that_nobody_else_has() -> None:
    chooser = users()
    found = {chooser.assign(SPEC, "id").user for _ in range(100)}
    assert len(found) == 100
    for each in found:
        assert is_own(replace(SPEC, user=each))
        assert 0x60000000 <= each < 0x68000000
    assert not is_own(SPEC)
    one = chooser.assign(SPEC, "id")
    assert one == replace(SPEC, user=one.user, group=one.user)


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, user=1234),
        replace(SPEC, group=1234),
        replace(SPEC, user=0, group=0),
        replace(SPEC, mounts=(Mount(source=Path("/srv"), target="/srv"),)),
    ],
)
def test_a_user_that_was_asked_for_or_has_files_is_kept(spec: Spec) -> None:
    assert users().assign(spec, "id") == spec


@pytest.mark.parametrize(
    "chooser",
    [
        users(is_root=False),
        users(maps=True),
        users(ImageOrigin(frozenset(), ("CMD", "LABEL other=1"))),
        users(ImageOrigin(frozenset(), ("Imported",))),
        users(ImageOrigin(frozenset({IMAGE_LABEL}), ("RUN touch /home/sandbox/x", *OURS.steps))),
    ],
    ids=["no root", "engine maps", "foreign image", "foreign import", "image on ours"],
)
def test_where_files_may_belong_to_the_default_user_it_stays(chooser: OwnUsers) -> None:
    assert chooser.assign(SPEC, "id") == SPEC


def test_an_image_that_was_imported_here_has_a_label_and_one_step() -> None:
    assert is_own(users(ImageOrigin(frozenset({IMAGE_LABEL}), ("",))).assign(SPEC, "id"))


def test_an_image_and_the_engine_are_asked_once() -> None:
    asked: list[str] = []

    def origin(image: str) -> ImageOrigin:
        asked.append(image)
        return OURS

    def maps() -> bool:
        asked.append("engine")
        return False

    chooser = OwnUsers(origin, maps, is_root=True)
    for image in ("a", "a", "b", "a"):
        chooser.assign(SPEC, image)
    assert asked == ["engine", "a", "b"]


@pytest.mark.parametrize(
    ("uid_map", "has_all"),
    [
        ("         0          0 4294967295\n", True),
        ("0 100000 65536\n", False),
        ("0 1000 1\n1 100000 65536\n", False),
    ],
)
def test_a_range_of_ids_is_not_all_of_them(uid_map: str, has_all: bool) -> None:
    assert has_all_ids(uid_map) is has_all


def test_without_all_ids_the_default_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_user, "_reads_all_ids", lambda: False)
    assert users().assign(SPEC, "id") == SPEC
