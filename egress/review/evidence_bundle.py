"""Evidence bundles: selected log lines, a proof that they belong to the log, and a signature.

A bundle is a zip file. `statement.json` describes the verified log, the selection, and every other member by
digest; `signature` is the Ed25519 signature of these bytes and `key.pem` the public key. `lines.jsonl` holds
the lines, `proof` the other hashes of the Merkle tree, `summary.json` totals, and `rules/` the rule files.

Only the holder of the secret log key can verify the chain. So the statement records the result of `verify`
and signs it with the hash of the whole log, which makes two bundles of one log comparable. The signature must
cover exactly the verified bytes: the files are read a second time, and every byte must match. Lines written
after the verification are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from egress.audit import LogVerification, Verification, files
from egress.audit.chain import ZERO_MAC
from egress.audit.chain_folders import FIRST_PLACE
from egress.audit.clock import format_timestamp
from egress.audit.verified_digest import ExtentDigest, VerifiedExtent
from egress.errors import UnreadableError, reason_of
from egress.review import evidence_key
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.filters import Filters
from egress.review.line_reader import CHUNK_BYTES, pieces
from egress.review.merkle import MerkleTree, hash_leaf
from egress.review.timestamps import format_moment

FORMAT = "egress evidence 1"
STATEMENT, SIGNATURE, KEY = "statement.json", "signature", "key.pem"
LINES, PROOF, SUMMARY, RULES = "lines.jsonl", "proof", "summary.json", "rules/"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BundledRuleFile:
    """A rule file to include in a bundle."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BundleResult:
    """The result of writing a bundle."""

    lines: int
    leaves: int
    root: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """The contents of a bundle to write."""

    filters: Filters
    verified: LogVerification
    """Verification of the log with `keeps_seen`."""
    rules: Sequence[BundledRuleFile] = ()
    policy: str = ""
    """Policy digest of the rule files."""
    now: int = 0


def make(target: Path, order: BundleRequest, key: Ed25519PrivateKey) -> BundleResult:
    """Write a bundle of a log that was verified.

    The lines are selected without the index: it has no MAC, so a forged index could hide lines unnoticed.

    Raises `UnreadableError` if the file exists or cannot be written, or if the log changed since its
    verification.
    """
    fresh = target.with_name(f"{target.name}.new")
    try:
        if target.exists():
            raise UnreadableError(f"the file {target} already exists", "name another file with --output")
        # A leftover or planted file could have laxer permissions or a second name (hard link).
        fresh.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(fresh, flags, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                made = _Bundle(file, order).write(key)
            fresh.rename(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = reason_of(error)
        raise UnreadableError(f"cannot write the bundle {target}: {reason}", "name another file") from None
    return made


class _Bundle:
    def __init__(self, file: IO[bytes], order: BundleRequest) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._order = order
        self._members: dict[str, dict[str, object]] = {}
        self._tree = MerkleTree()
        self._summary = _Summary()

    def write(self, key: Ed25519PrivateKey) -> BundleResult:
        with self._zip:
            # Lines first: writing them builds the tree and the summary. The statement comes last, because it
            # lists all other members by digest.
            self._put(LINES, self._lines())
            root = self._tree.root().hex()
            nodes = sorted(self._tree.proof, key=lambda node: node.at)
            self._put(PROOF, (f"{n.at} {n.size} {n.digest.hex()}\n".encode() for n in nodes))
            self._put(SUMMARY, [_json(self._summary.data())])
            for rule_file in self._order.rules:
                self._put(f"{RULES}{rule_file.name}", [rule_file.data])
            fingerprint = evidence_key.fingerprint(key.public_key())
            statement = _json(self._statement(root, fingerprint))
            self._put(STATEMENT, [statement])
            self._put(SIGNATURE, [key.sign(statement)])
            self._put(KEY, [evidence_key.public(key)])
        return BundleResult(self._summary.lines, self._tree.leaves, root, fingerprint)

    def _put(self, name: str, parts: Sequence[bytes] | Iterator[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        # A fixed time: the signed statement holds the only date.
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        with self._zip.open(info, "w", force_zip64=True) as member:
            for part in parts:
                member.write(part)
                digest.update(part)
                size += len(part)
        self._members[name] = {"sha256": digest.hexdigest(), "size": size}

    def _lines(self) -> Iterator[bytes]:
        """Yield the selected lines, and add every line to the tree."""
        # Chain after chain: the order of the leaves must not depend on clocks.
        for chain in self._order.verified.chains:
            if len(chain.found.seen) != chain.found.files:
                raise ValueError("a bundle needs a log verified with `keeps_seen`")
            for seen in chain.found.seen:
                yield from self._lines_of(leaves(chain.folder.path, seen), seen.number)

    def _lines_of(self, found: Iterator[tuple[int, bytes, bytes]], number: int) -> Iterator[bytes]:
        """Yield the selected lines of a file."""
        for at, digest, line in found:
            entry = _read(line, number, at)
            is_shown = entry is not None and self._order.filters.admits(entry)
            if entry is not None and is_shown:
                self._summary.add(entry)
                yield line + b"\n"
            self._tree.add(digest, is_shown=is_shown)

    def _statement(self, root: str, fingerprint: str) -> dict[str, object]:
        order, verified = self._order, self._order.verified
        chains = {chain.place: _chain(chain.found) for chain in verified.chains}
        return {
            "format": FORMAT,
            "made": format_moment(order.now),
            "key": fingerprint,
            "log": {
                "leaves": self._tree.leaves,
                "root": root,
                "sound": verified.is_sound,
                "lines": verified.lines,
                # Those of the first chain stand here too, where version 1 of the format has them.
                **chains.get(FIRST_PLACE, _NO_CHAIN),
                "chains": chains,
                # 1000 faults describe any damage; the limit bounds the statement.
                "faults": [f"{fault}" for fault in verified.faults[:1000]],
            },
            "taken": {"lines": self._summary.lines, "filters": order.filters.asked()},
            "policies": self._policies(),
            "members": self._members,
        }

    def _policies(self) -> Mapping[str, object]:
        """List the policies that decided the lines, with the rule files if included."""
        order = self._order
        names = sorted(rule_file.name for rule_file in order.rules)
        return {
            digest: {"lines": count, "files": names if digest == order.policy else []}
            for digest, count in sorted(self._summary.policies.items())
        }


def _chain(found: Verification) -> Mapping[str, object]:
    """Describe where a chain ends, and the pruning before its first line."""
    pruning = found.pruning
    pruned = None if pruning is None else {**asdict(pruning), "at": format_timestamp(pruning.at)}
    return {"newest": found.newest, "mac": found.mac, "pruned": pruned}


_NO_CHAIN: Mapping[str, object] = {"newest": 0, "mac": ZERO_MAC.hex(), "pruned": None}


class _Summary:
    """Totals over the lines of a bundle."""

    def __init__(self) -> None:
        self.lines = 0
        self.policies: Counter[str] = Counter()
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("event", "verdict", "sandbox", "host", "rule", "secret")
        }
        self._first = self._last = ""
        self._bytes = [0, 0]

    def add(self, entry: LogEntry) -> None:
        self.lines += 1
        # Compared, since the lines of a further chain begin anew in time.
        self._first = min(self._first or entry.time, entry.time)
        self._last = max(self._last, entry.time)
        self._bytes[0] += entry.number("bytes_up")
        self._bytes[1] += entry.number("bytes_down")
        if policy := entry.text("policy"):
            self.policies[policy] += 1
        for name in ("sandbox", "host", "rule"):
            if value := entry.text(name):
                self._counts[name][value] += 1
        self._counts["event"][entry.event] += 1
        if entry.verdict:
            self._counts["verdict"][entry.verdict] += 1
        self._counts["secret"].update(entry.secrets)

    def data(self) -> dict[str, object]:
        counts = {name: dict(counter.most_common(1000)) for name, counter in self._counts.items()}
        return {
            "lines": self.lines,
            "first": self._first,
            "last": self._last,
            "bytes_up": self._bytes[0],
            "bytes_down": self._bytes[1],
            **counts,
        }


def _read(line: bytes, number: int, at: int) -> LogEntry | None:
    try:
        return parse(line, number, at)
    except NotALineError:
        return None


def leaves(directory: Path, seen: VerifiedExtent) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the offset, leaf hash and text of every verified line of a file, also of invalid lines.

    A line over the length limit is hashed in pieces, and its text is empty. Raises `UnreadableError` at the
    end if the bytes differ from the verified ones.
    """
    extent, path = ExtentDigest(), directory / files.name(seen.number)
    try:
        with path.open("rb") as file:
            for piece in pieces(file, 0, seen.size):
                at = piece.at
                # A line that `verify` rejected enters the tree too: the hash covers every byte.
                if piece.skipped:
                    yield at, _long_leaf(path, at, piece.skipped - 1, extent), b""
                for line in piece.lines:
                    yield at, hash_leaf(line), line
                    at += len(line) + 1
                if piece.lines:
                    extent.add(b"\n".join((*piece.lines, b"")))
    except FileNotFoundError:
        raise _changed() from None
    if extent.extent(seen.number) != seen:
        raise _changed()


def _long_leaf(path: Path, at: int, size: int, extent: ExtentDigest) -> bytes:
    digest = hashlib.sha256(b"\0")
    with path.open("rb") as file:
        file.seek(at)
        while size > 0 and (data := file.read(min(size, CHUNK_BYTES))):
            if b"\n" in data:
                # Several lines in place of a long one would enter the tree unread.
                raise _changed()
            digest.update(data)
            extent.add(data)
            size -= len(data)
    extent.add(b"\n")
    return digest.digest()


def _changed() -> UnreadableError:
    return UnreadableError("the log changed during the export", "run `egress log verify`")


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True).encode("ascii") + b"\n"
