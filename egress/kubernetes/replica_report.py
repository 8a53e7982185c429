"""The report of one replica of a gateway to the others: which rules, and how far it knows the cluster.

A report names digests and versions. It holds no rule, no sandbox and no secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from egress.errors import ContentError
from egress.kubernetes.watch_events import WatchKind

REPLICA_PATH: Final = "/replica"
"""Where a replica tells its report, on the port for readiness."""
MAX_REPORT_BYTES: Final = 4096
RULES: Final = "rules"
SUBJECTS: Final = frozenset({RULES, *WatchKind})
"""The subjects in which a replica can be behind: the rules, and each collection of the cluster."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_DIGEST = re.compile(r"[0-9a-f]{0,128}")
_MAX_VERSION: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RulesVersion:
    """The version of the ConfigMap whose rules are in force."""

    version: int
    taken: int
    """UTC seconds at which this replica took it in."""


class ReplicaReport(msgspec.Struct, frozen=True):
    """The state of a replica."""

    replica: str
    ready: bool
    digest: str
    """The digest of the rules in force; empty if there are none."""
    taken: int
    """UTC seconds at which these rules came into force; 0 if nobody knows."""
    versions: dict[str, int]
    """For each subject the resource version of the newest change that the replica knows."""


def encode_report(report: ReplicaReport) -> str:
    """Return the text of a report."""
    return msgspec.json.encode(report).decode()


def read_report(data: bytes) -> ReplicaReport:
    """Read the report of another replica. Raises `ContentError`, which quotes nothing of it."""
    if len(data) > MAX_REPORT_BYTES:
        raise _unreadable("it is too long")
    try:
        found = msgspec.json.decode(data, type=ReplicaReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(type(error).__name__) from None
    # The name and the digest go into a log line and an Event.
    if not _NAME.fullmatch(found.replica) or not _DIGEST.fullmatch(found.digest):
        raise _unreadable("a name or a digest is none")
    # Another release may compare subjects that this one does not know.
    known = {key: value for key, value in found.versions.items() if key in SUBJECTS}
    if not all(0 <= value <= _MAX_VERSION for value in (found.taken, *known.values())):
        raise _unreadable("a version is none")
    return msgspec.structs.replace(found, versions=known)


def _unreadable(reason: str) -> ContentError:
    return ContentError(
        f"the report of a replica cannot be read: {reason}", "run one release in all replicas"
    )
