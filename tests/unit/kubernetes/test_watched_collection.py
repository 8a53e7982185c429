"""What is newer, what is gone, and what is too much."""

from __future__ import annotations

import pytest

from egress.kubernetes import watched_collection
from egress.kubernetes.watch_events import ObjectMeta, WatchedSandbox, WatchKind
from egress.kubernetes.watched_collection import WatchedCollection
from tests.unit.kubernetes.watch_samples import listed, sandbox


def meta(version: int, uid: str = "a") -> ObjectMeta:
    return ObjectMeta("a", "ns", uid, str(version))


def known(version: int) -> WatchedCollection:
    found = WatchedCollection()
    found.objects["a"] = WatchedSandbox(meta(version))
    return found


def test_news_is_above_the_object_its_deletion_and_the_list() -> None:
    collection = known(5)
    assert [collection.is_news(meta(version)) for version in (4, 5, 6)] == [False, False, True]
    collection.bury(meta(7))
    del collection.objects["a"]
    assert [collection.is_news(meta(version)) for version in (6, 7, 8)] == [False, False, True]
    collection.close_list(listed(WatchKind.SANDBOXES, 9))
    assert [collection.is_news(meta(version)) for version in (8, 9, 10)] == [False, False, True]
    assert collection.is_newer(meta(8))


def test_a_deletion_that_is_older_than_the_object_or_the_list_is_ignored() -> None:
    collection = known(5)
    assert collection.bury(meta(4)) is None
    assert collection.bury(meta(5)) is not None
    collection.close_list(listed(WatchKind.SANDBOXES, 9))
    assert collection.bury(meta(9)) is None


def test_a_deletion_outlives_an_older_list() -> None:
    collection = WatchedCollection()
    collection.bury(meta(12))
    collection.close_list(listed(WatchKind.SANDBOXES, 10))
    assert not collection.is_news(meta(11))


def test_a_list_removes_what_is_not_younger() -> None:
    collection = known(5)
    assert collection.gone_in(listed(WatchKind.SANDBOXES, 4)) == []
    assert len(collection.gone_in(listed(WatchKind.SANDBOXES, 5))) == 1
    assert collection.gone_in(listed(WatchKind.SANDBOXES, 5, sandbox("a", 5)))
    collection.close_list(listed(WatchKind.SANDBOXES, 6))
    assert collection.is_current
    assert collection.is_overtaken(listed(WatchKind.SANDBOXES, 5))


def test_more_than_fits_is_not_current_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_collection, "MAX_LISTED_OBJECTS", 1)
    monkeypatch.setattr(watched_collection, "MAX_TOMBSTONES", 1)
    collection = known(5)
    collection.is_current = True
    assert [collection.has_room(uid) for uid in ("a", "b")] == [True, False]
    states = [collection.is_current]
    for version, uid in ((6, "a"), (7, "b")):
        collection.is_current = True
        collection.bury(meta(version, uid))
        states.append(collection.is_current)
    assert states == [False, True, False]


def test_a_list_is_due_before_more_deletions_are_remembered_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_collection, "MANY_TOMBSTONES", 2)
    collection = known(5)
    collection.is_current = True
    due = []
    for version, uid in ((6, "a"), (7, "b")):
        collection.bury(meta(version, uid))
        due.append(collection.is_list_due)
    assert due == [False, True]
    collection.close_list(listed(WatchKind.SANDBOXES, 8))
    assert not collection.is_list_due
