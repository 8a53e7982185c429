"""The text of docs/reference/audit.md: every kind of line and every field, from the schema of the log."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from egress.audit.chain import Chain, Keys
from egress.audit.clock import format_timestamp
from egress.audit.fields import LogLine, about_fields
from egress.audit.lines import body
from egress.audit.schema import LINE_SECTIONS

KEY = bytes(range(32))
MOMENT = 1_772_357_400_000_123_000

INTRODUCTION = """\
The log has one line of JSON for every exchange, every tunnel, and every connection or DNS name that was
refused, and one for each event of the proxy itself. Lines are chained: `egress log verify` finds a line
that was changed, added, moved or deleted. All runs of a user write one log, at the same time or not.

A line holds names and numbers. It never holds a secret, a body or the value of a header, and of a query only
the names of its keys, with the values that a rule [keeps](../rules/limits-and-responses.md#recording). A text
from a sandbox is cut to a bounded length, ends with `…` then, and has every character escaped that is not
printable ASCII.

## The files

| file | content |
| --- | --- |
| `audit-000001.jsonl` and so on | the lines; a new file begins when one has reached a set size |
| `head` | the number and MAC of the newest line, so that a missing tail is found |
| `anchor` | where the log begins after old files were deleted, and who deleted them |
| `index.sqlite3` | the index for [reviewing](../guides/review.md), which can be deleted |
| `in-flight` | the requests under way, for the start after a kill |
| `chains/0002` and so on | the same files of a further chain, begun when proxies ran at the same time |
| `chains/register` | the chains, each with the number and MAC of one of its lines |

A chain has one writer at a time. A proxy continues a chain that is free, or begins one when none is. Every
command reads all chains as one log, merged by time. Chains of versions before 0.3 are in `runs/ID/audit`
beside this folder, and belong to the log too.

The key is 32 random bytes in a file of its own, outside of this folder and readable for one user. The first
start creates it. With the key one can write lines that pass for real ones; without it one can only read.

Only the proxy may write here. Log rotation by another tool is damage, and `verify` reports it: let the
proxy begin new files and delete old ones. To [ship the log](../guides/shipping.md), copy the files or
follow them.

## Every line

| field | meaning |
| --- | --- |
| `seq` | The number of the line. It grows by one, whatever the clock does; only a `gap` skips numbers. |
| `time` | When the line was made: UTC, microseconds, by the clock of the machine. |
| `run` | The id of the run that wrote it. Left out in lines of versions before 0.3. |
| `event` | The kind of line: one of the sections below. |
| `mac` | HMAC-SHA256 over the MAC of the line before and the bytes of this line before `,"mac":"`. Last. |

The first line of a chain follows 32 zero bytes. The key of a chain is HMAC-SHA256(key file, `egress audit
line`), so a log can be checked without any code of Egress.

All other fields of a kind are always present, in the same order. A value that is not known is `null`, 0 or
empty. `facts`, and fields that a version after 0.1.0 added, are left out where they are not known.
"""

VERDICTS = """\
## The three verdicts

| verdict | what Egress did | what the upstream has got |
| --- | --- | --- |
| `allow` | It stopped nothing. | All of the request, or as much as the upstream and the client let through. |
| `deny` | It stopped the request before anything of it was sent. | Nothing. |
| `cut` | It stopped the request later. | The head with its credentials, and what came before `code`. |

`code` says why. A `deny` is made by a rule, or by a check that follows the rules: an address that may not be
dialled (`address.refused`, with the address), a secret that is not available, a limit, a
[canary](../rules/canaries.md) in the head or the first part of a body. A `cut` is made by the same checks
further on: a canary further on in the body, a limit that is reached midway, a response that is withheld, an
access that is revoked meanwhile. A reason that this list does not foresee counts as an act of Egress, never
as `allow`.

An `allow` with one of these codes did not complete, and Egress did not stop it:

| code | meaning |
| --- | --- |
| `upstream.unresolved`, `upstream.unreachable` | It **failed**: the upstream was never reached. |
| `upstream.timeout`, `upstream.closed` | It **failed**: the upstream gave no complete answer. |
| `client.left` | The client hung up before the end. |

`egress log stats`, the summary of `egress run` and the [metrics](../guides/metrics.md) count `failed` beside
the verdicts. `upstream.tls` is a `deny`: the upstream did not prove its identity, and nothing was sent.
[Drafts](../guides/rules-from-traffic.md) are made of `allow` alone, and not of a host that was never reached.

Version 0.1.0 wrote `allow` for every request that the rules had let through, also where Egress stopped it
later. Such a line stays as it is in the log, in JSON and in exports. Filters, totals, drafts and the review
page read it as `deny` where it has no address, and as `cut` where it has one.
"""

PROMISES = """\
## What is promised, and what is not

- A kill of the process loses no exchange. Each has its line, or the next start writes a `lost` line for it.
  Refusals in the very moment of the kill are counted in the `gap`.
- A power failure can lose lines that had not reached the disk. They show as a `cut`: the two cannot be told
  apart.
- A change without the key is found, with one exception: a log and a head that were both restored to an
  older state still verify. `egress log verify` prints the newest number and its MAC: kept elsewhere, they
  show such a rollback.
- A deleted chain is found by the register, a deleted register by `started` lines. A chain that was restored
  to a state before its last start or end is found by the register, too. A register that was restored
  together with chains is found if a later start in another chain counted more of them.
- The holder of the key can delete old files as `egress log prune` does, and name somebody else in the
  anchor. Ship the lines elsewhere where that matters.
- Between a kill and the next start, the lines of the last write can be removed or spoiled without being
  found, because a kill does the same; none can be forged. Their numbers are in the `gap`, and their
  exchanges have `lost` lines. The start closes this window: from then on every change is found there as
  well.
- `in-flight` has no MAC, because it is written many times a second. A user who can change it while the
  proxy is down can hide what was under way, or invent something.
"""


def text() -> Iterator[str]:
    """The page below its title."""
    yield INTRODUCTION
    yield VERDICTS
    for title, kinds in LINE_SECTIONS.items():
        yield f"## {title}\n"
        for kind in kinds:
            yield from _section(kind)
    yield PROMISES.rstrip()


def _section(kind: type[LogLine]) -> Iterator[str]:
    yield f"### `{kind.__struct_config__.tag}`\n"
    yield f"{inspect.cleandoc(kind.__doc__ or '')}\n"
    yield "| field | meaning |"
    yield "| --- | --- |"
    for name, meta in about_fields(kind).items():
        yield f"| `{name}` | {meta.description} |"
    yield f"\n```json\n{example(kind)}\n```\n"


def example(kind: type[LogLine]) -> str:
    """A line as the proxy writes it, with the values that the schema gives as examples."""
    values = {name: (meta.examples or [None])[0] for name, meta in about_fields(kind).items()}
    line = Chain(Keys.of(KEY).line).seal(format_timestamp(MOMENT), body(kind(**{**values, **kind.examples})))
    return line.decode("ascii").rstrip()
