"""A bundle of evidence: some lines of a log, proof that they are part of the whole, and who says so.

One zip file. `statement.json` says what the log was when it was checked, what was taken out of it and what
every other member is by its digest; `signature` is the Ed25519 signature of just those bytes, `key.pem` the
public key. `lines.jsonl` holds the lines as they are, `proof` the rest of the tree of hashes, `summary.json`
what they come to, `rules/` the rule files that were given.

The chain of the log is made with a secret key, so nobody else can check it. That is why the statement says
what `verify` found, and signs the hash of the whole log with it: two bundles of one log can be compared.
What is signed is what was checked: the files are read a second time, and must be to the byte what `verify`
went over. What was written since is left out.
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

from egress.audit import Verification, files
from egress.audit.clock import format_timestamp
from egress.audit.verified_extent import ExtentDigest, VerifiedExtent
from egress.errors import UnreadableError
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
    """A rule file that goes with a bundle."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What came of making a bundle."""

    lines: int
    leaves: int
    root: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """What a bundle is to be made of."""

    filters: Filters
    verified: Verification
    """With what it went over."""
    rules: Sequence[BundledRuleFile] = ()
    policy: str = ""
    """The digest of those rule files together."""
    now: int = 0


def make(target: Path, log: Path, order: BundleRequest, key: Ed25519PrivateKey) -> BundleResult:
    """Write a bundle of the log in a folder.

    What goes into it is found in the lines alone: an index can be changed by who cannot change a line
    unseen, and would leave out what somebody wants to be left out.

    Raises `UnreadableError` when the file is there already or cannot be written, and when the log is not
    the one any more that was checked.
    """
    fresh = target.with_name(f"{target.name}.new")
    try:
        if target.exists():
            raise UnreadableError(f"there is a file {target} already", "name another with --output")
        # One that a crash left, or that somebody laid there for us to fill, could have other rights or names.
        fresh.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(fresh, flags, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                made = _Bundle(file, log, order).write(key)
            fresh.rename(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UnreadableError(f"the bundle {target} cannot be written: {reason}", "name another") from None
    return made


class _Bundle:
    def __init__(self, file: IO[bytes], log: Path, order: BundleRequest) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._log = log
        self._order = order
        self._members: dict[str, dict[str, object]] = {}
        self._tree = MerkleTree()
        self._summary = _Summary()

    def write(self, key: Ed25519PrivateKey) -> BundleResult:
        with self._zip:
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
        """The lines that are wanted, while the tree is made of all of them."""
        verified = self._order.verified
        if len(verified.seen) != verified.files:
            raise ValueError("a bundle is made of a log that was verified with `keeps_seen`")
        for seen in verified.seen:
            for at, digest, line in leaves(self._log, seen):
                entry = _read(line, seen.number, at)
                is_shown = entry is not None and self._order.filters.admits(entry)
                if entry is not None and is_shown:
                    self._summary.add(entry)
                    yield line + b"\n"
                self._tree.add(digest, is_shown=is_shown)

    def _statement(self, root: str, fingerprint: str) -> dict[str, object]:
        order, verified = self._order, self._order.verified
        return {
            "format": FORMAT,
            "made": format_moment(order.now),
            "key": fingerprint,
            "log": {
                "leaves": self._tree.leaves,
                "root": root,
                "sound": verified.is_sound,
                "lines": verified.lines,
                "newest": verified.newest,
                "mac": verified.mac,
                "faults": [f"{fault}" for fault in verified.faults[:1000]],
                "pruned": _pruned(verified),
            },
            "taken": {"lines": self._summary.lines, "filters": order.filters.asked()},
            "policies": self._policies(),
            "members": self._members,
        }

    def _policies(self) -> Mapping[str, object]:
        """Every set of rules that decided something, with the files of it if they are here."""
        order = self._order
        names = sorted(rule_file.name for rule_file in order.rules)
        return {
            digest: {"lines": count, "files": names if digest == order.policy else []}
            for digest, count in sorted(self._summary.policies.items())
        }


def _pruned(verified: Verification) -> Mapping[str, object] | None:
    """Who deleted what stood before the first line."""
    found = verified.pruning
    return None if found is None else {**asdict(found), "at": format_timestamp(found.at)}


class _Summary:
    """What the lines of a bundle come to."""

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
        self._first = self._first or entry.time
        self._last = entry.time
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
    """Every line of a file that was checked, whatever it is: where it begins, its leaf, and the line itself.

    One that is too long to be ours is not held, and comes as an empty one. Raises `UnreadableError` at the
    end where these were not the lines that were checked.
    """
    looking, path = ExtentDigest(), directory / files.name(seen.number)
    try:
        with path.open("rb") as file:
            for piece in pieces(file, 0, seen.size):
                at = piece.at
                if piece.skipped:
                    yield at, _long_leaf(path, at, piece.skipped - 1, looking), b""
                for line in piece.lines:
                    yield at, hash_leaf(line), line
                    at += len(line) + 1
                if piece.lines:
                    looking.add(b"\n".join((*piece.lines, b"")))
    except FileNotFoundError:
        raise _changed() from None
    if looking.extent(seen.number) != seen:
        raise _changed()


def _long_leaf(path: Path, at: int, size: int, looking: ExtentDigest) -> bytes:
    digest = hashlib.sha256(b"\0")
    with path.open("rb") as file:
        file.seek(at)
        while size > 0 and (data := file.read(min(size, CHUNK_BYTES))):
            if b"\n" in data:
                # Several lines would go for a long one, which nobody looks into.
                raise _changed()
            digest.update(data)
            looking.add(data)
            size -= len(data)
    looking.add(b"\n")
    return digest.digest()


def _changed() -> UnreadableError:
    return UnreadableError("the log was changed while it was exported", "run `egress log verify`")


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True).encode("ascii") + b"\n"
