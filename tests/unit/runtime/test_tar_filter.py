"""Archives made to do harm: what comes through is harmless to anything that unpacks it."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.runtime.errors import ArchiveError
from egress.runtime.tar_filter import ArchiveLimits, FilterResult, filter_archive
from tests.tiers import examples

Entries = list[tuple[tarfile.TarInfo, bytes]]


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"", **more: int
) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, link, len(data)
    for key, value in more.items():
        setattr(found, key, value)
    return found, data


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for found, data in entries:
            tar.addfile(found, io.BytesIO(data))
    out.seek(0)
    return out


def sifted(
    archive: io.BytesIO, bounds: ArchiveLimits | None = None
) -> tuple[list[tarfile.TarInfo], FilterResult]:
    out = io.BytesIO()
    found = filter_archive(archive, out, bounds or ArchiveLimits())
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        return tar.getmembers(), found


FOLDER, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def test_what_people_pack_comes_through() -> None:
    """The good twin."""
    archive = packed(
        entry("./", FOLDER, mode=0o755), entry("./a", data=b"one", mode=0o644), entry("./b/c", data=b"two"),
        entry("./run", data=b"#!", mode=0o755), entry("./link", LINK, "b/c"), entry("./b/up", LINK, "../a"),
        entry("./hard", HARD, "./a"), entry("./b/ü \n", data=b"odd"),
    )  # fmt: skip
    members, found = sifted(archive)
    assert [each.name for each in members] == [".", "a", "b/c", "run", "link", "b/up", "hard", "b/ü \n"]
    assert (found.left_out, found.entries, found.size) == ([], 8, 11)
    assert [stat.filemode(each.mode)[1:] for each in members[1:4:2]] == ["rw-r--r--", "rwxr-xr-x"]


@pytest.mark.parametrize(
    "name",
    ["../out", "a/../../out", "/etc/passwd", "..", "a/..", "//x", "/", "a" * 5000, "a/" + "b" * 256, ""],
)
def test_a_name_that_leads_out_is_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match="leads out"):
        sifted(packed(entry(name, data=b"x")))


@pytest.mark.parametrize(
    "entries",
    [
        # A link first, and then through it.
        [entry("a", LINK, "."), entry("a/b", data=b"x")],
        [entry("a", LINK, "b"), entry("b", FOLDER), entry("a/c", data=b"x")],
        [entry("a", data=b"x"), entry("a/b", data=b"x")],
        # One name for two things.
        [entry("a", LINK, "b"), entry("a", data=b"x")],
        [entry("a", data=b"x"), entry("./a", data=b"y")],
        [entry("a", FOLDER), entry("a", LINK, "b")],
        [entry("a/b", data=b"x"), entry("a", LINK, ".")],
        # A hard link to what is not there, or to a link.
        [entry("a", HARD, "nothing")],
        [entry("l", LINK, "x"), entry("a", HARD, "l")],
        [entry("d", FOLDER), entry("a", HARD, "d")],
    ],
)  # fmt: skip
def test_what_would_be_written_through_something_else_is_refused(entries: Entries) -> None:
    with pytest.raises(ArchiveError):
        sifted(packed(*entries))


@pytest.mark.parametrize(
    "left_out",
    [
        entry("l", LINK, "/etc/passwd"), entry("l", LINK, "../x"), entry("a/l", LINK, "../../x"),
        entry("l", LINK, "a/../../x"), entry("l", LINK, "a/.."), entry("l", LINK, ""), entry(".", LINK, "x"),
        entry("h", HARD, "/etc/passwd"), entry("h", HARD, "../x"),
        entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3), entry("disk", tarfile.BLKTYPE),
        entry("pipe", tarfile.FIFOTYPE), entry("odd", b"Z"), entry(".", data=b"x"),
    ],
)  # fmt: skip
def test_what_leads_out_or_is_no_file_is_left_out_and_told(left_out: tuple[tarfile.TarInfo, bytes]) -> None:
    members, found = sifted(packed(left_out, entry("good", data=b"x")))
    assert [each.name for each in members] == ["good"]
    assert (found.left_out, found.omitted) == ([left_out[0].name], 1)


def test_nothing_is_left_but_name_content_time_and_permissions() -> None:
    wild = entry("a", data=b"x", mode=0o7777, uid=0, gid=0, mtime=2**40)
    wild[0].uname, wild[0].pax_headers = "root", {"SCHILY.xattr.security.capability": "all of them"}
    early = entry("b", data=b"x", mtime=-(2**40))
    [one, two], _ = sifted(packed(wild, early))
    assert (one.mode, one.uname, one.pax_headers) == (0o777, "", {})
    assert (one.mtime, two.mtime) == (2**33 - 1, 0)


def test_bounds_hold_for_the_whole() -> None:
    many = [entry(str(number), data=b"12345") for number in range(10)]
    assert sifted(packed(*many), ArchiveLimits(10, 50))[1].size == 50
    for bounds in (ArchiveLimits(9, 50), ArchiveLimits(10, 49)):
        with pytest.raises(ArchiveError, match="more than"):
            sifted(packed(*many), bounds)


def test_a_file_with_holes_is_left_out() -> None:
    """It could be of any size, and takes no room in the archive."""
    sparse = entry("big", data=b"x")
    sparse[0].pax_headers = {
        "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "big",
        "GNU.sparse.size": str(2**50), "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,1",
    }  # fmt: skip
    members, found = sifted(packed(sparse, entry("good")))
    assert [each.name for each in members] == ["good"]
    assert found.omitted == 1


@pytest.mark.parametrize(
    "kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK]
)
def test_what_describes_an_entry_has_a_size_too(kind: bytes) -> None:
    """It is read as a whole, before anything of it can be judged."""
    head = tarfile.TarInfo("x")
    head.type, head.size = kind, 2**32
    read: list[int] = []

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            read.append(size)
            return head.tobuf(tarfile.GNU_FORMAT) if len(read) == 1 else b"a" * size

    with pytest.raises(ArchiveError):
        filter_archive(Endless(), io.BytesIO())  # type: ignore[arg-type]
    assert sum(read) < 10 * 1024 * 1024


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 512, os.urandom(4096), b"\x1f\x8b" + b"\0" * 600])
def test_what_is_no_archive_is_refused_or_empty(data: bytes) -> None:
    try:
        members, _ = sifted(io.BytesIO(data))
    except ArchiveError:
        return
    assert members == []


def test_one_that_is_cut_off_is_refused() -> None:
    whole = packed(entry("a", data=b"x" * 5000)).getvalue()
    with pytest.raises(ArchiveError):
        sifted(io.BytesIO(whole[:3000]))


_NAMES = st.sampled_from(["a", "b", "c", "a/b", "a/c", "b/a", "../a", "a/../b", ".", "/a", "a/b/c"])
_KINDS = st.sampled_from([tarfile.REGTYPE, FOLDER, LINK, HARD, tarfile.FIFOTYPE])
_TARGETS = st.sampled_from(["a", "b", "..", "../..", ".", "/tmp", "a/b", "../a", "b/../..", "../b/c"])


@given(st.lists(st.tuples(_NAMES, _KINDS, _TARGETS), max_size=6))
def test_whatever_comes_through_stays_in_its_folder(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, bytes, str]]
) -> None:
    """Unpacked by something that trusts it."""
    archive = packed(
        *(entry(name, kind, link, b"" if kind != tarfile.REGTYPE else b"x") for name, kind, link in rows)
    )
    out = io.BytesIO()
    try:
        filter_archive(archive, out)
    except ArchiveError:
        return
    out.seek(0)
    outer = tmp_path_factory.mktemp("outer")
    inner = outer / "inner"
    inner.mkdir()
    with tarfile.open(fileobj=out) as tar:
        tar.extractall(inner, filter="fully_trusted")
    assert [path.name for path in outer.iterdir()] == ["inner"]
    for path in inner.rglob("*"):
        assert path.is_symlink() or path.is_file() or path.is_dir()
        if path.is_symlink() and path.exists():
            assert path.resolve().is_relative_to(inner.resolve())


def header(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"") -> bytes:
    found, _ = entry(name, kind, data=data)
    return found.tobuf(tarfile.GNU_FORMAT) + data + b"\0" * (-len(data) % tarfile.BLOCKSIZE)


def test_names_that_are_only_implied_are_bounded_as_well() -> None:
    """S-39..S-54: a name of a thousand folders is a thousand names; five kilobytes held four megabytes."""
    deep = io.BytesIO(b"".join(header(f"{number}" + "/a" * 2000) for number in range(200)) + b"\0" * 1024)
    with pytest.raises(ArchiveError, match="too many long names"):
        filter_archive(deep, io.BytesIO())
    flat = packed(*(entry(f"{number}/a/b") for number in range(200)))
    assert sifted(flat, ArchiveLimits(names=3 * 200 * len("199/a/b")))[1].entries == 200


def test_what_is_said_for_all_entries_is_bounded_together() -> None:
    """Each of these is small enough, and every one of them would be kept to the end."""

    def general(number: int, size: int) -> bytes:
        text = f" k{number:03}={'x' * size}\n"
        length = len(text) + len(str(len(text) + 4))
        return header("g", tarfile.XGLTYPE, f"{length}{text}".encode()) + header(str(number))

    with pytest.raises(ArchiveError, match="cannot be read"):
        filter_archive(
            io.BytesIO(b"".join(general(each, 30_000) for each in range(3)) + b"\0" * 1024), io.BytesIO()
        )
    good = io.BytesIO(b"".join(general(each, 600) for each in range(3)) + b"\0" * 1024)
    assert sifted(good)[1].entries == 3


def records(*keys: tuple[bytes, bytes]) -> bytes:
    """Keys and values as the format says them."""
    out = b""
    for key, value in keys:
        text = b" " + key + b"=" + value + b"\n"
        size = next(size for size in range(5, 9999) if size == len(text) + len(str(size)))
        out += str(size).encode() + text
    return out


class Counted(io.RawIOBase):
    """An archive of any size that is made while it is read."""

    def __init__(self, begin: bytes, then: bytes) -> None:
        self._begin = io.BytesIO(begin)
        self._then = then
        self.given = 0

    def read(self, size: int = -1) -> bytes:
        found = self._begin.read(size) or (self._then * (size // len(self._then) + 1))[:size]
        self.given += len(found)
        return found


def with_holes(size: int, *, has_more: bool) -> bytes:
    """The header of an old file with holes."""
    head = bytearray(header("holes", tarfile.GNUTYPE_SPARSE, b"x" * size)[:512])
    head[482] = has_more
    head[483:495] = b"00000000777\0"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


MAPPED = records((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_map_of_holes_in_the_contents_is_not_read(kind: bytes) -> None:
    """H-1: 32 MiB of one made 1.3 GiB of numbers."""
    contents = b"%d\n" % 10**9 + b"999\n" * 500_000
    begin = header("p", kind, MAPPED) + header("holes", data=contents) + header("good", data=b"x")
    tracemalloc.start()
    try:
        members, found = sifted(io.BytesIO(begin + b"\0" * 1024))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    is_for_all = kind == tarfile.XGLTYPE
    assert ([each.name for each in members], found.left_out) == (["good"], ["holes"]) or is_for_all
    assert most < 2 * len(contents)


def test_a_map_of_holes_in_blocks_is_passed_and_bounded() -> None:
    """H-1: it went on for as long as its blocks said so, and all of it was kept."""
    block = b"77777777777\0" * 42 + b"\1" + b"\0" * 7
    last = block[:504] + b"\0" * 8
    whole = with_holes(3, has_more=True) + block + last + b"xxx".ljust(512, b"\0") + header("good", data=b"x")
    members, found = sifted(io.BytesIO(whole + b"\0" * 1024))
    assert ([each.name for each in members], found.left_out) == (["good"], ["holes"])
    endless = Counted(with_holes(3, has_more=True), block)
    with pytest.raises(ArchiveError):
        filter_archive(endless, io.BytesIO())  # type: ignore[arg-type]
    assert endless.given < 4 * 1024 * 1024


@pytest.mark.parametrize(
    "cut",
    [
        with_holes(0, has_more=True),
        header("p", tarfile.XHDTYPE, MAPPED) + header("x"),
        header("p", tarfile.XHDTYPE, b"1"),
        header("l", tarfile.GNUTYPE_LONGNAME, b"x"),
    ],
)
def test_one_that_is_cut_off_within_what_describes_is_no_more_than_refused(cut: bytes) -> None:
    for size in range(0, len(cut) + 1, 128):
        with contextlib.suppress(ArchiveError):
            filter_archive(io.BytesIO(cut[:size]), io.BytesIO())


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_the_number_of_keys_is_bounded(kind: bytes) -> None:
    """H-1: what is said for all entries is gone through at each of them."""

    def keyed(*numbers: range) -> io.BytesIO:
        parts = (records(*((b"k%d" % number, b"v") for number in each)) for each in numbers)
        return io.BytesIO(b"".join(header("p", kind, each) + header(f"{hash(each)}") for each in parts))

    assert sifted(keyed(range(100)))[1].entries == 1
    with pytest.raises(ArchiveError, match="cannot be read"):
        sifted(keyed(range(101)))
    same = io.BytesIO(header("p", kind, records((b"k", b"v")) * 101) + header("x"))
    with pytest.raises(ArchiveError, match="cannot be read"):
        sifted(same)
    if kind == tarfile.XGLTYPE:
        with pytest.raises(ArchiveError, match="cannot be read"):
            sifted(keyed(range(60), range(60, 120)))


def test_what_describes_one_entry_is_bounded_together() -> None:
    """Each part is read, and held, before the next one is looked at."""
    long = header("l", tarfile.GNUTYPE_LONGNAME, b"a" * 300_000)
    for many in (long * 4, header("l", tarfile.GNUTYPE_LONGNAME) * 21):
        with pytest.raises(ArchiveError, match="cannot be read"):
            filter_archive(io.BytesIO(many + header("x")), io.BytesIO())


_VALUES = st.sampled_from(
    [b"", b"0", b"1", b"-1", b"nan", b"inf", b"1e400", b"9" * 5000, b"a,b", b"1,2,3", b"\xff"]
)
_KEYS = st.sampled_from(
    [
        *(b"GNU.sparse." + each
            for each in (b"major", b"minor", b"size", b"realsize", b"map", b"name", b"offset")),
        b"path", b"linkpath", b"size", b"mtime", b"uid", b"uname", b"hdrcharset", b"k",
    ]
)  # fmt: skip
_PARTS = st.one_of(
    st.builds(
        lambda kind, keys: header("p", kind, records(*keys)),
        st.sampled_from([tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE]),
        st.lists(st.tuples(_KEYS, _VALUES), max_size=4),
    ),
    st.builds(
        header,
        st.sampled_from(["a", "b/c", "d" * 90, "../e"]),
        st.sampled_from([bytes([each]) for each in b"\x000123456789ALKSNVMDgxXZ"]),
        st.sampled_from([b"", b"x", b"a\0", b"2\n0\n1\n", b"x" * 600]),
    ),
    st.builds(lambda size, more: with_holes(size, has_more=more), st.integers(0, 600), st.booleans()),
    st.binary(max_size=600),
    st.just(b"\0" * 512),
)
_CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4)


def changed(data: bytes, changes: list[tuple[float, int]], *, is_summed: bool) -> bytes:
    """The same with other bytes in it, and headers that count them."""
    out = bytearray(data)
    for place, value in changes if out else []:
        at = int(place * len(out))
        out[at] = value
        head = at - at % 512
        if is_summed and head + 512 <= len(out):
            out[head + 148 : head + 156] = b" " * 8
            out[head + 148 : head + 156] = b"%06o\0 " % sum(out[head : head + 512])
    return bytes(out)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(_PARTS, max_size=6), _CHANGES, st.booleans(), st.floats(0, 1))
def test_whatever_comes_is_made_clean_or_refused(
    parts: list[bytes], changes: list[tuple[float, int]], is_summed: bool, whole: float
) -> None:
    """Nothing but the module's own error, and nothing but folders, files and links."""
    data = changed(b"".join(parts), changes, is_summed=is_summed)
    data = data[: int(len(data) * max(whole, 0.5) + 0.5)]
    try:
        members, _ = sifted(io.BytesIO(data))
    except ArchiveError:
        return
    assert all(each.isdir() or each.issym() or each.islnk() or each.isreg() for each in members)
    assert not any(each.issparse() or each.name.startswith("/") for each in members)


def test_names_that_are_not_wanted_are_left_out_and_counted() -> None:
    source = packed(entry("a/key", data=b"1"), entry("./a/other", data=b"2"), entry("key", data=b"3"))
    target = io.BytesIO()
    found = filter_archive(source, target, omit={"a/key"})
    assert (found.omitted, found.left_out) == (1, ["a/key"])
    target.seek(0)
    with tarfile.open(fileobj=target) as tar:
        assert tar.getnames() == ["a/other", "key"]
