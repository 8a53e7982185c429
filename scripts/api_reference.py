"""The text of docs/reference/api.md: every call of the API, from its table and its schema."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import msgspec

from egress.api.operation import Operation
from egress.api.operations import OPERATIONS
from egress.api.process_schema import TerminalClientMessage, TerminalServerMessage
from egress.api.schema import ClientMessage, ServerMessage, StartMessage
from egress.api_server.call import STATUS_BY_CODE
from egress.api_server.exec_over_http import STALL_SECONDS
from egress.api_server.input_queue import MAX_WAITING_INPUT
from egress.fleet.process_table import MAX_VIEWERS, TYPING_SECONDS
from egress.fleet.session_table import MAX_SESSIONS, MAX_WAITING
from egress.fleet.terminal_replay import MAX_REPLAY_BYTES

INTRODUCTION = """\
`egress up` serves this API at the unix socket `sandboxes.sock` in its runtime folder, for its own user. The
command line, the Python handle and every other client use the same calls.

```sh
curl --unix-socket "$XDG_RUNTIME_DIR/egress/sandboxes.sock" http://egress/v1/about
```

`egress up --api-listen` serves it [over TCP too](../guides/run.md#the-api-for-other-machines): every request
there shows a token, the calls marked "only at the unix socket" are not there, and a sandbox gets no mounts.

Bodies are JSON, and a request with a field or a parameter that the schema does not have is refused. An answer
may get further fields in a later version. `GET /v1/openapi.json` returns the whole schema as OpenAPI 3.1.

Every error has one shape: `{"type": "sandbox.not_found", "message": "…", "hint": "…"}`. Decide by `type`; the
texts are for people. They hold no secret, no rule, and no text from a sandbox.
"""
STREAM = """\
## The stream of a command

`GET /v1/sandboxes/{name}/exec` as a WebSocket runs one command. The first message of the client is `start`.
Text messages are JSON with a `type`; binary messages carry a channel in their first byte: 0 for input, 1
for standard output, 2 for standard error. Each message of input is answered with `taken` once the command
has it: a client that waits for that can end the command at any moment. More than 16 messages that wait
for the command are a problem, and end it. The command ends with the
connection, unless it is `detached`.
"""
FILES = """\
## Files

A relative path starts in the workspace, and neither `..` nor a link leads it out of there. An absolute path
is used as written. Commands of the sandbox's user do the work: a call can do what that user can.

`PUT .../file` replaces the file when all of it has arrived; a request that breaks off leaves the old one.
`GET` takes one range, such as `Range: bytes=0-499` or `bytes=-500`.

```sh
socket="$XDG_RUNTIME_DIR/egress/sandboxes.sock"
curl --unix-socket "$socket" -T report.pdf 'http://egress/v1/sandboxes/one/file?path=in/report.pdf'
curl --unix-socket "$socket" -r 0-99 'http://egress/v1/sandboxes/one/file?path=in/report.pdf'
curl --unix-socket "$socket" -N 'http://egress/v1/sandboxes/one/watch?path=.'
```

A watch compares lists of the folder, so a file that is created and removed between two lists is not seen. If
the image has Python 3, and the folder is on a local file system, the kernel gives notice of changes (inotify)
and nothing is listed while nothing changes; else a list is made every `interval` seconds. In both cases a
change is sent at most `interval` seconds later.
"""
PROCESSES = """\
## Processes and their output

`POST /v1/sandboxes/{name}/processes` starts a command that does not end with its connection. Any client
finds it by its id, until the sandbox is removed or `egress up` ends. A sandbox has at most 64 running ones,
and keeps the last 16 that ended.

The output has offsets: bytes since its beginning, for `stdout` and `stderr` apart. The newest are kept, as
many as `keep` says. `GET .../output?offset=N` answers with the kept bytes from there on; `egress-offset` is
the offset of the first byte of the answer, higher than N if those bytes are gone, `egress-next-offset` the
offset to continue from, and `egress-first-offset` the lowest that is kept. With `Accept: text/event-stream`
the call follows the output:

| event | |
| --- | --- |
| `output` | `text`, or `base64` with `encoding=base64`; `offset` is that of its first byte. |
| `lost` | The bytes from `offset` to `next` are gone: the client read too slowly, or came too late. |
| `end` | The process has ended; `process` is its view. |

After a reconnect, ask with the last `next` as `offset`: no byte comes twice, and none is left out unseen.
"""
TERMINALS = f"""\
## The terminal of a process

A process that is started with `terminal` has one. `GET .../processes/{{process}}/terminal` as a WebSocket
attaches to it, and the process goes on when the client leaves. The first output shows the terminal as it
is: the modes that the program has set, then its newest output, at most {MAX_REPLAY_BYTES // 1024} KiB. A
program with a screen of its own, such as an editor, is told to draw it again.

`columns` and `rows` in the query are the size of the client's terminal. All clients see the same and may
type; the size is that of the client that attached or resized last. There are at most {MAX_VIEWERS}: a
further one takes the place of the one that attached first. One that reads slowly holds up nobody: it is
shown the terminal anew.

Binary messages carry a channel in their first byte: 0 for input, 1 for output. Each message of input is
answered with `taken`; more than {MAX_WAITING_INPUT} that wait are a problem. Input that the program has
not taken is dropped after {TYPING_SECONDS:g} seconds, if another client types meanwhile. `.../stdin`
types as well.

| message of the client | fields | |
| --- | --- | --- |
"""
SESSIONS = f"""\
## Sessions

`PUT /v1/sandboxes/{{name}}/sessions/{{session}}` creates a shell that keeps its folder and variables between
commands, under an id of the client's choice: 1 to 64 letters, digits, dots, hyphens and underscores. The same
call again, from any client, returns it. Settings that are left out are those of the existing session; others
are `session.differs`. A sandbox has at most {MAX_SESSIONS}.

`POST .../exec` runs lines in it, and answers as `exec` of the sandbox does: with JSON, or with events. One
command runs at a time. Up to {MAX_WAITING} others wait in the order in which they came; a further one is
refused with `session.busy`. The end of the connection ends the command or takes it out of the queue, and so
does the timeout: the session goes on. A client that takes no output for {STALL_SECONDS:g} seconds counts as
gone.

`state_kept: false` says that the shell ended, by `exit` or because it was killed: the next command begins in
a new shell, as the session began. The end of the sandbox ends a session, also a sleep or a stop: it is then
`lost`, each command is refused with `sandbox.died`, and the next `PUT` begins it anew.
"""
PROGRESS = """\
## Calls that take a while

Creating, starting, cloning and taking a snapshot may take longer than a person waits in silence. With
`Accept: text/event-stream` these calls answer with events: `progress` for each stage and each second, then
`result` with what the plain call answers, or `problem`. The status is 200 in both cases. A client that leaves
does not stop the work.
"""
RULES_AND_LOG = """\
## Rules and log of a sandbox

A grant is a change to the rules of one sandbox for a time. The proxy makes it only within
[`delegate:`](../rules/delegation.md) of the rule file, and records it with the entrance by which it was asked
for. A client of the port takes back the grants that were made at the port, and no others.

The calls for lines answer with JSON lines (`application/x-ndjson`), newest first, each as
[the audit log](audit.md) says. They are lines of this `egress up` alone. If there are more,
`egress-cursor` is the `cursor` of the next call: no line comes twice, and none is left out because others
were written meanwhile.
`egress-behind` says how many bytes of the log could not be searched yet. With `Accept: text/event-stream` the
call follows the log: a `line` event for each, and `problem` as the last one if it cannot go on. At most 32
clients of a server follow at a time. After a reconnect, ask with `since` of the last line, and drop the lines
whose `seq` you have.

At a port, lines have no `place`, `address` and `mac`, and an explanation has no `place` and no `considered`.
"""


def text() -> Iterator[str]:
    """The lines of the page."""
    yield INTRODUCTION
    yield "## Calls"
    yield ""
    yield "| call | | query | body | answer |"
    yield "| --- | --- | --- | --- | --- |"
    for operation in OPERATIONS.values():
        yield f"| `{operation.method} {operation.path}` | {_summary(operation)} | {_cells(operation)} |"
    yield ""
    yield FILES
    yield STREAM
    yield "| message of the client | fields | |"
    yield "| --- | --- | --- |"
    for kind in (StartMessage, *ClientMessage.__args__):
        yield _message(kind)
    yield ""
    yield "| message of the server | fields | |"
    yield "| --- | --- | --- |"
    for kind in ServerMessage.__args__:
        yield _message(kind)
    yield ""
    yield PROCESSES
    yield TERMINALS.rstrip()
    yield _message(TerminalClientMessage)
    yield ""
    yield "| message of the server | fields | |"
    yield "| --- | --- | --- |"
    for kind in TerminalServerMessage.__args__:
        yield _message(kind)
    yield ""
    yield SESSIONS
    yield PROGRESS
    yield RULES_AND_LOG
    yield "## Types of problems"
    yield ""
    yield "| type | status |"
    yield "| --- | --- |"
    for code, status in sorted(STATUS_BY_CODE.items()):
        yield f"| `{code}` | {int(status)} |"
    yield "| every other | 500 |"


def _summary(operation: Operation) -> str:
    return operation.summary + (" Only at the unix socket." if operation.owner_only else "")


def _cells(operation: Operation) -> str:
    query = ", ".join(f"`{each}`" for each in _fields(operation.query))
    sends = operation.sends if operation.sends != "json" else ""
    body = f"`{operation.body.__name__}`" if operation.body is not None else sends
    answer = f"`{operation.answer.__name__}`" if operation.answer is not None else operation.returns
    return f"{query} | {body} | {answer if answer != 'none' else ''}"


def _fields(kind: type[msgspec.Struct] | None) -> list[str]:
    return [] if kind is None else [field.encode_name for field in msgspec.structs.fields(kind)]


def _message(kind: type[msgspec.Struct]) -> str:
    summary = (inspect.getdoc(kind) or "").splitlines()[0]
    names = ", ".join(f"`{each}`" for each in _fields(kind))
    return f"| `{kind.__struct_config__.tag}` | {names} | {summary} |"
