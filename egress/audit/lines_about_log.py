"""The lines that the audit writes about the log itself: gaps, rotation, pruning, and a full disk.

They belong to the schema in `egress.audit.schema`, which lists every kind of line.
"""

from __future__ import annotations

from typing import Annotated

from egress.audit.fields import Count, LogLine, Name, Previous, about


class GapLine(LogLine, tag="gap"):
    """A start found lines missing that had been announced, or bytes that are no line.

    Numbers that were announced are never used again. The bytes of an incomplete line are kept as they are, so
    they are the one thing in these files that is not JSON. `jq -R 'fromjson?'` skips them.
    """

    kind: Annotated[
        Name,
        about(
            "`killed`: the process died within a write, and everything that it had confirmed is there. "
            "This is sound. Every other kind is damage, and `verify` reports it for as long as the file is "
            "kept. `cut`: the end of the log was gone. `altered`: the last line was different. `foreign`: "
            "there were bytes that no proxy wrote. `head`: the head was missing or damaged. `register`: the "
            "register of chains was missing or damaged.",
            "killed",
        ),
    ] = ""
    first: Annotated[
        Count | None, about("The first line that is missing; `null` when none is, or none is known.", 40)
    ] = None
    last: Annotated[Count | None, about("The last line that is missing.", 42)] = None
    refusals: Annotated[
        Count, about("An upper bound of refusals and dropped lines that are in no line.", 3)
    ] = 0
    # Size and digest let `verify` accept just the fragment in front of this line, and no other bytes.
    fragment_bytes: Annotated[
        Count,
        about("How many bytes of an incomplete line precede this one; `#` and a line end close it.", 39),
    ] = 0
    fragment_sha256: Annotated[
        Name | None,
        about(
            "The SHA-256 of those bytes.",
            "9ce3e721721e11334169bce283697b63bd56217b3731db09860159ad87adb35f",
        ),
    ] = None
    # Repeated from the chain, so that this line can be verified although lines before it are missing.
    previous: Previous = ""


class RotatedLine(LogLine, tag="rotated"):
    """The first line of every further file."""

    file: Annotated[Name, about("The file before.", "audit-000001.jsonl")] = ""
    previous: Previous = ""


class PrunedLine(LogLine, tag="pruned"):
    """Old files were deleted.

    The anchor says so before the first file is deleted, and this line follows: within a second in a proxy
    that runs, otherwise at the next start. Deletions until then share one line. A kill in between repeats the
    line, with the same `at`.
    """

    by: Annotated[
        Name,
        about(
            "The user who called `egress log prune`, or `the proxy` when its setting for the number of files "
            "did it; several names where there were several deletions.",
            "root",
        ),
    ] = ""
    at: Annotated[Name, about("When the last deletion was.", "2026-03-01T09:30:00.000123Z")] = ""
    files: Annotated[Count, about("How many files were deleted.", 3)] = 0
    bytes: Annotated[Count, about("How many bytes they had.", 201_326_592)] = 0
    first: Annotated[Count, about("The number of the first line that was kept.", 41_217)] = 0
    forced: Annotated[
        bool, about("Whether `--force` overrode that the log was not sound.", example=False)
    ] = False


class ResumedLine(LogLine, tag="resumed"):
    """The log could not be written for a while, and now it can.

    Lines that waited precede this one. At first only the sandbox whose line did not fit was stopped; every
    sandbox was, when a second attempt failed a second later.
    """

    reason: Annotated[Name, about("What the system said: `ENOSPC` for a full disk.", "ENOSPC")] = ""
    stopped: Annotated[Name, about("How many sandboxes were stopped: `none`, `one`, `all`.", "all")] = ""
    milliseconds: Annotated[Count, about("For how long.", 4210)] = 0


class DroppedLine(LogLine, tag="dropped"):
    """Lines that were not written: the disk was full and work went on, or too many lines were waiting."""

    count: Annotated[Count, about("How many.", 17)] = 0
