"""Verification of an evidence bundle, without the log and its key.

A bundle comes from a stranger: no member is unpacked to disk, every member is read in bounded memory, and an
oversized member is refused. A member must not be used before the signature and its digest are verified.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from egress.audit.chain import MAX_LINE_BYTES
from egress.errors import UnreadableError, reason_of
from egress.review import evidence_bundle, evidence_key
from egress.review.merkle import MerkleNode, rebuild_root

MAX_STATEMENT_BYTES = 32 * 1024 * 1024
MAX_MEMBERS = 1000
PACKED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


@dataclass(frozen=True, slots=True)
class CheckedEvidence:
    """The result of a bundle check."""

    fingerprint: str
    faults: tuple[str, ...]
    statement: dict[str, object]
    """The signed statement; empty if the signature is invalid."""

    @property
    def is_sound(self) -> bool:
        return not self.faults

    def part(self, name: str) -> dict[str, object]:
        """Return an object of the statement; empty if missing."""
        found = self.statement.get(name)
        return found if isinstance(found, dict) else {}


def check(path: Path, expected: str = "") -> CheckedEvidence:
    """Check a bundle. `expected` is the fingerprint of the required signer; empty accepts any signer.

    Raises `UnreadableError` for a file that is not a bundle.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _checked(archive, expected)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        KeyError,
    ):
        raise UnreadableError(f"{path} is not an evidence bundle, or is damaged", "fetch it again") from None
    except OSError as error:
        reason = reason_of(error)
        raise UnreadableError(f"cannot read the bundle {path}: {reason}", "name another file") from None


def _checked(archive: zipfile.ZipFile, expected: str) -> CheckedEvidence:
    # Limits are checked before a byte is unpacked, and the signature before the statement is parsed.
    names = archive.namelist()
    if len(names) > MAX_MEMBERS or len(set(names)) != len(names):
        raise ValueError
    if any(member.compress_type not in PACKED for member in archive.infolist()):
        # Other compression methods can demand gigabytes of memory for the first byte.
        raise ValueError
    data = _small(archive, evidence_bundle.STATEMENT, MAX_STATEMENT_BYTES)
    key = evidence_key.read_public(_small(archive, evidence_bundle.KEY, evidence_key.MAX_KEY_BYTES))
    if key is None:
        raise ValueError
    fingerprint = evidence_key.fingerprint(key)
    if not evidence_key.is_signed(key, _small(archive, evidence_bundle.SIGNATURE, 64), data):
        return CheckedEvidence(fingerprint, ("the statement was changed: its signature is invalid",), {})
    statement = json.loads(data)
    if not isinstance(statement, dict) or statement.get("format") != evidence_bundle.FORMAT:
        raise ValueError
    found = CheckedEvidence(fingerprint, (), statement)
    faults = [*_key_faults(found, expected), *_member_faults(archive, found, names)]
    # Lines and proof are parsed only after their digests match.
    return CheckedEvidence(fingerprint, tuple(faults or _tree_faults(archive, found)), statement)


def _small(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    with archive.open(name) as member:
        data = member.read(limit + 1)
    if len(data) > limit:
        raise ValueError
    return data


def _key_faults(found: CheckedEvidence, expected: str) -> Iterator[str]:
    if expected and expected != found.fingerprint:
        yield "the bundle was signed with a key other than the expected one"
    if found.statement.get("key") != found.fingerprint:
        yield "the statement names a key other than the one in the bundle"


def _member_faults(archive: zipfile.ZipFile, found: CheckedEvidence, names: list[str]) -> Iterator[str]:
    members = found.part("members")
    # Unlisted members are not covered by the signature, so they are faults even if never read.
    extra = (
        set(names)
        - members.keys()
        - {evidence_bundle.STATEMENT, evidence_bundle.SIGNATURE, evidence_bundle.KEY}
    )
    if extra:
        yield f"members that the statement does not list: {len(extra)}"
    for name, told in members.items():
        if name not in names:
            yield f"the member {name} is missing"
        elif not isinstance(told, dict) or _digest(archive, name, told.get("size")) != told.get("sha256"):
            yield f"the member {name} was changed"


def _digest(archive: zipfile.ZipFile, name: str, size: object) -> str:
    """Return the digest of a member; empty if its size differs from `size`."""
    digest, left = hashlib.sha256(), size if isinstance(size, int) else 0
    with archive.open(name) as member:
        while data := member.read(min(1 << 20, left + 1)):
            left -= len(data)
            if left < 0:
                return ""
            digest.update(data)
    return "" if left else digest.hexdigest()


def _tree_faults(archive: zipfile.ZipFile, found: CheckedEvidence) -> Iterator[str]:
    log = found.part("log")
    leaves, root = log.get("leaves"), log.get("root")
    if not isinstance(leaves, int) or leaves < 0:
        yield "the statement lacks the length of the log"
        return
    if not {evidence_bundle.LINES, evidence_bundle.PROOF} <= set(archive.namelist()):
        yield "the bundle lacks its lines or their proof"
        return
    # The count is compared too: the tree alone would accept a different selection of the same log.
    with archive.open(evidence_bundle.LINES) as lines, archive.open(evidence_bundle.PROOF) as proof:
        counted = _Counted(_texts(lines))
        made = rebuild_root(_nodes(_texts(proof)), counted, leaves)
    if made is None or made.hex() != root:
        yield "the lines and their proof do not match the signed log"
    elif counted.number != found.part("taken").get("lines"):
        yield "the number of lines differs from the statement"


class _Counted(Iterator[bytes]):
    """An iterator over lines that counts them."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.number = 0

    def __next__(self) -> bytes:
        line = next(self._lines)
        self.number += 1
        return line


def _texts(member: IO[bytes]) -> Iterator[bytes]:
    while line := member.readline(MAX_LINE_BYTES + 2):
        if not line.endswith(b"\n"):
            raise ValueError
        yield line[:-1]


def _nodes(lines: Iterator[bytes]) -> Iterator[MerkleNode]:
    for line in lines:
        at, size, digest = line.split(b" ")
        yield MerkleNode(int(at), int(size), bytes.fromhex(digest.decode("ascii")))
