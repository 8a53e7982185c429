"""Decoding of what an attacker chose: every coding, every bound, and nothing lenient."""

from __future__ import annotations

import contextlib
import functools
import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard

from egress.exchange import content_coding
from egress.exchange.content_coding import (
    FREE_BYTES,
    MAX_PIECES_PER_CHUNK,
    MAX_RATIO,
    MAX_WINDOW_OUTPUT_BYTES,
    MEMBER_COST_BYTES,
    BombError,
    CodingError,
    ContentCoding,
    Decoder,
)
from tests.unit.exchange.sample import PACK, bare_deflate

PACKED = [
    (ContentCoding.GZIP, PACK["gzip"]),
    (ContentCoding.DEFLATE, PACK["deflate"]),
    (ContentCoding.DEFLATE, bare_deflate),
    (ContentCoding.BROTLI, PACK["br"]),
    (ContentCoding.ZSTD, PACK["zstd"]),
]
EVERY = pytest.mark.parametrize(
    ("coding", "pack"), PACKED, ids=["gzip", "deflate", "bare deflate", "br", "zstd"]
)
Pack = Callable[[bytes], bytes]
TEXT = b"".join(b'{"id": %d, "name": "item %d"}, ' % (n, n * n) for n in range(9000))
GIB = 1 << 30


def decoded(coding: ContentCoding, *chunks: bytes) -> bytes:
    decoder = Decoder(coding)
    out = b"".join(piece for chunk in chunks for piece in decoder.feed(chunk))
    decoder.finish()
    return out


# What decodes -----------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 65536, 1 << 30])
def test_decodes_in_chunks_of_any_size(coding: ContentCoding, pack: Pack, size: int) -> None:
    packed = pack(TEXT)
    assert decoded(coding, *[packed[at : at + size] for at in range(0, len(packed), size)]) == TEXT


@EVERY
def test_nothing_and_an_empty_stream_are_empty(coding: ContentCoding, pack: Pack) -> None:
    assert decoded(coding) == b""
    assert decoded(coding, b"") == b""
    assert decoded(coding, pack(b"")) == b""


@EVERY
def test_what_can_be_decoded_is_handed_out_at_once(coding: ContentCoding, pack: Pack) -> None:
    """A stream of events must not wait for its end."""
    packed = flushed(coding, pack)
    decoder = Decoder(coding)
    assert b"".join(decoder.feed(packed)) == b"event: 1\n\n"
    with pytest.raises(CodingError):
        decoder.finish()


def flushed(coding: ContentCoding, pack: Pack) -> bytes:
    """A stream that goes on, as far as a server has sent it."""
    event = b"event: 1\n\n"
    if coding is ContentCoding.BROTLI:
        brotli_packer = brotli.Compressor()
        return bytes(brotli_packer.process(event) + brotli_packer.flush())
    if coding is ContentCoding.ZSTD:
        zstd_packer = zstandard.ZstdCompressor().compressobj()
        return zstd_packer.compress(event) + zstd_packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    bits = 31 if coding is ContentCoding.GZIP else -15 if pack is bare_deflate else 15
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(("coding", "pack"), [PACKED[0], PACKED[4]], ids=["gzip", "zstd"])
@pytest.mark.parametrize("size", [1, 9, 1 << 30])
def test_gzip_and_zstd_may_have_several_members(coding: ContentCoding, pack: Pack, size: int) -> None:
    packed = pack(b"one ") + pack(b"") + pack(b"two ") + pack(TEXT)
    chunks = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert decoded(coding, *chunks) == b"one two " + TEXT


def test_zstd_may_have_a_frame_to_be_skipped() -> None:
    skipped = b"\x50\x2a\x4d\x18" + (300).to_bytes(4, "little") + bytes(300)
    assert decoded(ContentCoding.ZSTD, skipped + PACK["zstd"](b"x") + skipped) == b"x"


@functools.cache
def brotli_of(log: int) -> bytes:
    return bytes(brotli.compress(TEXT, quality=5, lgwin=log))


def zstd_of(log: int) -> bytes:
    how = zstandard.ZstdCompressionParameters(window_log=log)
    packer = zstandard.ZstdCompressor(compression_params=how).compressobj()
    return packer.compress(TEXT) + packer.flush()


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("coding", "pack", "log"),
    [
        (ContentCoding.ZSTD, zstd_of, 22),
        (ContentCoding.BROTLI, brotli_of, 22),
    ],
)
def test_a_window_of_four_mebibytes_is_read_and_no_larger_one(
    coding: ContentCoding, pack: Callable[[int], bytes], log: int, size: int
) -> None:
    def cut(packed: bytes) -> list[bytes]:
        return [packed[at : at + size] for at in range(0, len(packed), size)]

    assert decoded(coding, *cut(pack(log))) == TEXT
    for larger in (log + 1, log + 2):
        with pytest.raises(BombError):
            decoded(coding, *cut(pack(larger)))


@pytest.mark.parametrize("log", range(10, 23))
def test_every_smaller_window_of_brotli_is_read(log: int) -> None:
    assert decoded(ContentCoding.BROTLI, brotli_of(log)) == TEXT


def test_a_brotli_stream_beyond_the_standard_is_refused() -> None:
    """The seven bits that the standard leaves free stand for windows of up to a gigabyte."""
    with pytest.raises(CodingError):
        decoded(ContentCoding.BROTLI, bytes([0b0010001, 30]) + PACK["br"](TEXT)[1:])


@EVERY
def test_pieces_are_small_and_never_empty(coding: ContentCoding, pack: Pack) -> None:
    pieces = list(Decoder(coding).feed(pack(TEXT * 20)))
    assert b"".join(pieces) == TEXT * 20
    most = 5 << 20 if coding is ContentCoding.ZSTD else 128 << 10
    assert all(0 < len(piece) <= most for piece in pieces)


# What does not ----------------------------------------------------------------------------------


@EVERY
def test_an_end_too_early_is_a_fault(coding: ContentCoding, pack: Pack) -> None:
    packed = pack(b"hello, hello, hello")
    for end in range(1, len(packed)):
        with pytest.raises(CodingError) as caught:
            decoded(coding, packed[:end])
        assert caught.value.code == "upstream.malformed"


@EVERY
@pytest.mark.parametrize("more", [b"x", b"\0", b"\0" * 600, b"\x1f\x8b"])
def test_bytes_behind_the_end_are_a_fault(coding: ContentCoding, pack: Pack, more: bytes) -> None:
    packed = pack(b"hello")
    for chunks in ([packed + more], [packed, more]):
        with pytest.raises(CodingError) as caught:
            decoded(coding, *chunks)
        assert caught.value.code == "upstream.malformed"


@pytest.mark.parametrize(("coding", "pack"), PACKED[1:4], ids=["deflate", "bare deflate", "br"])
def test_what_is_no_row_of_members_has_one(coding: ContentCoding, pack: Pack) -> None:
    for chunks in ([pack(b"a") + pack(b"b")], [pack(b"a"), pack(b"b")]):
        with pytest.raises(CodingError):
            decoded(coding, *chunks)


@EVERY
def test_a_changed_byte_gives_other_contents_or_this_fault(coding: ContentCoding, pack: Pack) -> None:
    packed = bytearray(pack(b"hello, hello, hello"))
    faults = 0
    for at in range(len(packed)):
        packed[at] ^= 0x55
        with contextlib.suppress(CodingError):
            faults += 1
            decoded(coding, bytes(packed))
            faults -= 1
        packed[at] ^= 0x55
    assert faults


def test_preset_dictionaries_are_refused() -> None:
    packer = zlib.compressobj(zdict=b"hello")
    with pytest.raises(CodingError):
        decoded(ContentCoding.DEFLATE, packer.compress(b"hello") + packer.flush())
    known = zstandard.train_dictionary(4096, [b'{"id": %d, "name": "item"}' % n for n in range(4000)])
    with pytest.raises(CodingError):
        decoded(ContentCoding.ZSTD, zstandard.ZstdCompressor(dict_data=known).compress(b'{"id": 5}'))


def test_a_checksum_is_checked() -> None:
    with pytest.raises(CodingError):
        decoded(ContentCoding.GZIP, gzip.compress(b"hello")[:-8] + bytes(8))
    with pytest.raises(CodingError):
        decoded(ContentCoding.DEFLATE, zlib.compress(b"hello")[:-4] + bytes(4))


def test_the_error_shows_nothing_of_the_body() -> None:
    with pytest.raises(CodingError) as caught:
        decoded(ContentCoding.BROTLI, b"hunter2 hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# Bombs ------------------------------------------------------------------------------------------


def zeros_as_gzip() -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    yield parts[0]
    yield from [parts[1]] * ((GIB >> 24) - 1)


def zeros_as_zstd() -> Iterator[bytes]:
    packer = zstandard.ZstdCompressor().compressobj()
    for _ in range(GIB >> 24):
        yield packer.compress(bytes(1 << 24))
    yield packer.flush()


def zeros_as_br() -> Iterator[bytes]:
    packer = brotli.Compressor(quality=1)
    for _ in range(GIB >> 24):
        yield packer.process(bytes(1 << 24))
    yield packer.finish()


def runs_as_zstd() -> Iterator[bytes]:
    """A gibibyte written by hand in the smallest blocks known profiles: four bytes for 128 KiB each."""
    yield b"\x28\xb5\x2f\xfd\x00\x58"
    yield (2 | (128 << 10) << 3).to_bytes(3, "little") + b"\0"
    for _ in range(63):
        yield ((2 | (128 << 10) << 3).to_bytes(3, "little") + b"\0") * 128


BOMBS = {
    "gzip": (ContentCoding.GZIP, zeros_as_gzip),
    "br": (ContentCoding.BROTLI, zeros_as_br),
    "zstd": (ContentCoding.ZSTD, zeros_as_zstd),
    "zstd by hand": (ContentCoding.ZSTD, runs_as_zstd),
}


@pytest.mark.parametrize(("coding", "make"), BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("size", [100, 65536])
def test_a_gibibyte_of_nothing_is_a_bomb_and_stays_small(
    coding: ContentCoding, make: Callable[[], Iterator[bytes]], size: int
) -> None:
    bomb = b"".join(make())[: 4 << 20]
    assert len(bomb) < 2 << 20
    made: list[int] = []

    def decode_all() -> None:
        decoder = Decoder(coding)
        for at in range(0, len(bomb), size):
            made.extend(map(len, decoder.feed(bomb[at : at + size])))

    tracemalloc.start()
    try:
        with pytest.raises(BombError) as caught:
            decode_all()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.code == "response.withheld"
    assert sum(made) < 16 << 20
    assert max(made, default=0) < 5 << 20
    assert peak < 32 << 20


def test_one_call_hands_out_no_more_than_stated() -> None:
    """Of a body whose ratio as a whole would be allowed."""
    packed = bare_deflate(bytes(MAX_WINDOW_OUTPUT_BYTES + 1))
    ahead = bare_stored(bytes(60_000))
    decoder = Decoder(ContentCoding.DEFLATE)
    assert sum(map(len, decoder.feed(ahead))) == 60_000
    with pytest.raises(BombError):
        list(decoder.feed(packed))
    decoder = Decoder(ContentCoding.DEFLATE)
    assert sum(map(len, decoder.feed(ahead))) == 60_000
    assert sum(sum(map(len, decoder.feed(packed[at : at + 4000]))) for at in range(0, len(packed), 4000)) > (
        MAX_WINDOW_OUTPUT_BYTES
    )


def bare_stored(data: bytes) -> bytes:
    """One stored block of deflate that is not the last one."""
    size = len(data)
    return b"\0" + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + data


def test_a_large_chunk_may_hold_more() -> None:
    """What the caller already has in memory sets the measure."""
    data = bytes(MAX_WINDOW_OUTPUT_BYTES + (1 << 20))
    chunk = bare_stored(bytes(65535)) * 3 + bare_deflate(data)
    assert len(chunk) * MAX_PIECES_PER_CHUNK > len(data) + 3 * 65535
    assert len(decoded(ContentCoding.DEFLATE, chunk)) == len(data) + 3 * 65535


def test_a_small_body_may_have_any_ratio() -> None:
    small = PACK["br"](bytes(FREE_BYTES - MEMBER_COST_BYTES))
    assert len(small) * MAX_RATIO < FREE_BYTES - MEMBER_COST_BYTES
    assert decoded(ContentCoding.BROTLI, small) == bytes(FREE_BYTES - MEMBER_COST_BYTES)
    with pytest.raises(BombError):
        decoded(ContentCoding.BROTLI, PACK["br"](bytes(FREE_BYTES - MEMBER_COST_BYTES + 1)))


@pytest.mark.parametrize("pack", [PACK["gzip"], PACK["zstd"]], ids=["gzip", "zstd"])
def test_a_flood_of_empty_members_is_a_bomb(pack: Pack) -> None:
    coding = ContentCoding.GZIP if pack is PACK["gzip"] else ContentCoding.ZSTD
    with pytest.raises(BombError):
        decoded(coding, pack(b"") * 3000)
    lines = [pack(b"line %d of a log, appended by itself, as rotated logs are\n" % n) for n in range(300)]
    assert len(decoded(coding, b"".join(lines))) > 15_000


def test_only_codings_that_are_decoded_have_a_decoder() -> None:
    assert set(content_coding._DECODERS) == set(ContentCoding) - {
        ContentCoding.PLAIN,
        ContentCoding.UNREADABLE,
    }
