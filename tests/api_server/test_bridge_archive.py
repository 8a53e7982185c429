"""The archive that the client keeps: no hard links, none of what it excludes, and else everything."""

from __future__ import annotations

import io
import tarfile
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api_server.bridge_archive import read_excludes, write_portable
from egress.runtime.errors import SpecError
from egress.runtime.tar_filter import filter_archive

_NAMES = st.sampled_from(["a", "b", "c", "deep/a", "deep/b", "deep/er/c"])
_FILES = st.dictionaries(_NAMES, st.binary(max_size=2000), min_size=1)


def archive(files: dict[str, bytes], links: dict[str, str], soft: dict[str, str]) -> io.BytesIO:
    """An archive of a workspace, as a fleet returns it."""
    raw, clean = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        root = tarfile.TarInfo(".")
        root.type = tarfile.DIRTYPE
        tar.addfile(root)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for kind, names in ((tarfile.LNKTYPE, links), (tarfile.SYMTYPE, soft)):
            for name, target in names.items():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = kind, target
                tar.addfile(entry)
    raw.seek(0)
    filter_archive(raw, clean)
    return clean


def portable(source: io.BytesIO, excludes: frozenset[str] = frozenset()) -> dict[str, bytes | str | None]:
    """The content of each file, the target of each link, and None for each folder."""
    found: dict[str, bytes | str | None] = {}
    with tempfile.TemporaryFile() as target:
        write_portable(source, target, excludes)
        target.seek(0)
        tar = tarfile.open(fileobj=target)  # noqa: SIM115 - it has nothing of its own to close
        for entry in tar:
            assert not entry.islnk()
            file = tar.extractfile(entry) if entry.isreg() else None
            found[entry.name] = file.read() if file else entry.linkname or None
    return found


@given(_FILES, st.dictionaries(st.sampled_from(["x", "y", "deep/z"]), _NAMES), st.booleans())
def test_files_and_second_names_have_their_content(
    files: dict[str, bytes], links: dict[str, str], has_soft: bool
) -> None:
    links = {name: target for name, target in links.items() if target in files}
    soft = {"soft": next(iter(files))} if has_soft else {}
    found = portable(archive(files, links, soft))
    assert found == {".": None, **files, **{name: files[target] for name, target in links.items()}, **soft}


def test_a_path_is_excluded_with_everything_below_and_nothing_beside() -> None:
    files = {"deep/a": b"1", "deeper": b"2", "one": b"3", "x/deep/a": b"4"}
    found = portable(archive(files, {"second": "deep/a"}, {}), frozenset({"deep", "one"}))
    assert found == {".": None, "deeper": b"2", "x/deep/a": b"4", "second": b"1"}


def test_excludes_are_paths_in_the_workspace() -> None:
    assert read_excludes("") == frozenset()
    assert read_excludes("./a,b/c/,,/d") == {"a", "b/c", "d"}
    for text in ("..", "a,../b", "a/../../b"):
        with pytest.raises(SpecError):
            read_excludes(text)
