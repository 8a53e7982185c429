"""The newest known object of each UID in one collection, whatever the order in which events come.

Versions of one collection grow with every change, so an event is news if its version is above that of its
object, of its deletion, and of the last list. A deletion is remembered until a list is newer than it: an
older event that comes behind it would otherwise bring the object back.
"""

from __future__ import annotations

from typing import Final

from egress.kubernetes.watch_events import MAX_LISTED_OBJECTS, ObjectMeta, WatchedList, WatchedObject

MAX_TOMBSTONES: Final = MAX_LISTED_OBJECTS
MANY_TOMBSTONES: Final = MAX_TOMBSTONES // 10
"""A list is due by then: watches can go on for months without one."""


class WatchedCollection:
    """One collection, and whether what is known of it can be trusted."""

    def __init__(self) -> None:
        self.objects: dict[str, WatchedObject] = {}
        self.is_current = False
        self.reached = 0
        """The version up to which every change is known."""
        self.changed = 0
        """The version of the newest change that is known; bookmarks and lists reach further."""
        self._deleted: dict[str, int] = {}
        self._listed_version = -1

    @property
    def is_list_due(self) -> bool:
        """Whether only a list makes this collection current, or will soon."""
        return not self.is_current or len(self._deleted) >= MANY_TOMBSTONES

    def is_news(self, metadata: ObjectMeta) -> bool:
        """Report whether a watch tells something new with this object."""
        return metadata.version > self._listed_version and self.is_newer(metadata)

    def is_newer(self, metadata: ObjectMeta) -> bool:
        """Report whether an object is newer than what is known of it, or of its deletion."""
        known = self.objects.get(metadata.uid)
        known_version = known.metadata.version if known else -1
        return metadata.version > max(known_version, self._deleted.get(metadata.uid, -1))

    def reach(self, version: int, changed: int = 0) -> None:
        """Take note of a version up to which the collection is known, and of its newest change."""
        self.reached, self.changed = max(self.reached, version), max(self.changed, changed)

    def has_room(self, uid: str) -> bool:
        """Report whether an object fits; if not, the collection is not current any more.

        An object that is left out could be the second one at an address.
        """
        if uid in self.objects or len(self.objects) < MAX_LISTED_OBJECTS:
            return True
        self.is_current = False
        return False

    def bury(self, metadata: ObjectMeta) -> WatchedObject | None:
        """Remember that an object is deleted, and return what was known of it."""
        known = self.objects.get(metadata.uid)
        known_version = known.metadata.version if known else -1
        # A watch with a selector also deletes what it does not select any more, and may add it again.
        if metadata.version <= self._listed_version or metadata.version < known_version:
            return None
        if len(self._deleted) >= MAX_TOMBSTONES:
            self.is_current = False
        else:
            self._deleted[metadata.uid] = max(metadata.version, self._deleted.get(metadata.uid, -1))
        return known

    def gone_in(self, listed: WatchedList) -> list[WatchedObject]:
        """Return the objects that a list does not have and that are not younger than it."""
        known = {found.metadata.uid for found in listed.objects}
        return [
            found
            for uid, found in self.objects.items()
            if uid not in known and found.metadata.version <= listed.version
        ]

    def reset(self) -> None:
        """Take note that there is nothing: whatever comes later is news."""
        self._deleted.clear()
        self._listed_version, self.is_current = -1, True
        self.reached = self.changed = 0

    def is_overtaken(self, listed: WatchedList) -> bool:
        """Report whether a list is older than one that was taken before."""
        return listed.version < self._listed_version

    def close_list(self, listed: WatchedList) -> None:
        """Take note that a list was taken as a whole."""
        self._listed_version = listed.version
        self.reach(listed.version, max((each.metadata.version for each in listed.objects), default=0))
        self._deleted = {uid: version for uid, version in self._deleted.items() if version > listed.version}
        self.is_current = True
