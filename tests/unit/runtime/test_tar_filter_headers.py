"""What describes an entry is bounded before the library reads it; `test_archive` has what comes of that."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

import pytest

from egress.runtime.errors import ArchiveError
from egress.runtime.tar_filter import BoundedTarReader


def archive(
    *names: str, keys: Mapping[str, str] | None = None, general: Mapping[str, str] | None = None
) -> bytes:
    """Files by name, with their own keys, and with keys that hold for all."""
    held = io.BytesIO()
    with tarfile.open(
        fileobj=held, mode="w", format=tarfile.PAX_FORMAT, pax_headers=dict(general or {})
    ) as made:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.pax_headers = 4, dict(keys or {})
            made.addfile(entry, io.BytesIO(b"data"))
    return held.getvalue()


def names(data: bytes) -> list[str]:
    reader = BoundedTarReader(io.BytesIO(data))
    found = []
    while (entry := reader.next()) is not None:
        found.append(entry.name)
    return found


def test_what_people_pack_is_read() -> None:
    long = "folder/" * 40 + "file"
    assert names(archive("a", long, keys={"comment": "of mine"}, general={"note": "for all"})) == ["a", long]


@pytest.mark.parametrize(("number", "is_read"), [(100, True), (101, False)])
def test_the_keys_of_an_entry_are_counted(number: int, *, is_read: bool) -> None:
    data = archive("a", keys={f"k{each}": "v" for each in range(number)})
    if is_read:
        assert names(data) == ["a"]
    else:
        with pytest.raises(ArchiveError):
            names(data)


def test_keys_that_hold_for_all_are_counted_over_all_parts() -> None:
    part = archive("a", general={f"k{each}": "v" for each in range(60)})
    other = archive("a", general={f"other{each}": "v" for each in range(60)})
    # The end of the first archive is left out: they are one.
    end = part.rstrip(b"\0")
    both = end + bytes(-len(end) % tarfile.BLOCKSIZE) + other
    assert names(part) == names(other) == ["a"]
    with pytest.raises(ArchiveError):
        names(both)


def test_a_part_that_is_too_long_is_refused_before_it_is_read() -> None:
    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            self.taken += len(found)
            return found

    source = Counted(archive("a", keys={"comment": "x" * 3_000_000}))
    with pytest.raises(ArchiveError):
        BoundedTarReader(source).next()
    assert source.taken < 100_000


def test_a_map_of_holes_is_not_read_from_the_contents() -> None:
    keys = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "4"}
    reader = BoundedTarReader(io.BytesIO(archive("a", "b", keys=keys)))
    first, second = reader.next(), reader.next()
    assert first is not None
    assert second is not None
    assert first.issparse()
    assert not first.sparse
    assert (second.name, reader.next()) == ("b", None)


def test_it_is_not_read_backwards() -> None:
    reader = BoundedTarReader(io.BytesIO(archive("a")))
    reader.next()
    with pytest.raises(tarfile.StreamError):
        reader.source.seek(0)
