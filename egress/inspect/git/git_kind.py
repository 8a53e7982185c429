"""git over smart HTTP as a kind of body.

The head of a fetch, and of a discovery, says all. A push says in its body which refs it moves; its pack is
read only as far as it may prove an update to be a fast-forward, and streams on unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from egress.errors import CODES, WireError
from egress.inspect.git.endpoint import FETCH, PUSH, GitEndpoint, read_endpoint
from egress.inspect.git.fast_forward import ForwardProof
from egress.inspect.git.gzip_body import GzipBody
from egress.inspect.git.pack_commits import MAX_PACK_BYTES
from egress.inspect.git.push_request import (
    MAX_COMMANDS,
    CommandKind,
    PushCapabilities,
    PushReader,
    PushRequest,
)
from egress.inspect.git.refusal_report import discovery_media_type, discovery_refusal, push_report
from egress.inspect.inspector import (
    MORE,
    Facts,
    FactValue,
    Inspection,
    Inspector,
    Refusal,
    RefusalAnswer,
    Unreadable,
    fact_text,
    is_cut,
)
from egress.request_name_folding import fold_header
from egress.types import Head

MAX_HELD_BYTES: Final = MAX_PACK_BYTES + 1024 * 1024
MAX_DRAINED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a refused push that are read into nothing: git reads no report before it has sent its pack."""
NOT_SENT_REASON: Final = "not sent: another ref was refused"

REQUEST_TYPES: Final = {service: f"application/x-{service}-request" for service in (FETCH, PUSH)}
"""The type of the body of each service."""
_REPORT_TYPE: Final = f"application/x-{PUSH}-result"
_CHANGE: Final = re.compile(
    r"(create|update|delete) (refs/\S+) ([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64})( forward)?"
)
_OPTION_CHARS: Final = "!#$&'()*+,/:;=?@[]~"
"""Characters of push options that stand in the log as they are; a blank stands between two options."""


@dataclass(frozen=True, slots=True)
class GitFetch:
    """A fetch, or its discovery."""

    repository: str

    def __str__(self) -> str:
        return f"fetch {self.repository}"


@dataclass(frozen=True, slots=True)
class GitPushStart:
    """The discovery of a push, or its probe: nothing is moved yet."""

    repository: str

    def __str__(self) -> str:
        return f"push {self.repository}"


@dataclass(frozen=True, slots=True)
class RefChange:
    """One ref that a push moves."""

    repository: str
    ref: str
    kind: CommandKind
    old: str
    new: str
    is_forward: bool = False
    """The update is proven to keep every commit of the ref."""
    options: tuple[str, ...] = ()
    """The options of the push, which belong to each of its refs."""

    def __str__(self) -> str:
        return f"{self.kind} {self.ref}"


GitItem = GitFetch | GitPushStart | RefChange


@dataclass(frozen=True, slots=True)
class PushAnswering:
    """What the answer to a refused push depends on."""

    capabilities: PushCapabilities
    refs: tuple[str, ...]


class PushInspector:
    """Reads the body of a push, as far as it has to be read."""

    def __init__(self, repository: str, gzip: GzipBody | None = None) -> None:
        """`gzip` decodes a body that is compressed."""
        self._repository = repository
        self._gzip = gzip
        self._reader = PushReader()
        self._push: PushRequest | None = None
        self._proof = ForwardProof(())
        self._fed = 0

    def feed(self, data: bytes) -> Inspection:
        self._fed += len(data)
        try:
            data = data if self._gzip is None else self._gzip.feed(data)
        except WireError as error:
            return self._unreadable(error)
        if self._push is not None:
            unproven = self._proof.unproven
            self._proof.feed(data)
            # A client may send a pack byte by byte: to judge the same facts anew costs more than to read.
            is_new = self._proof.is_settled or self._proof.unproven != unproven
            return self._facts(self._push) if is_new else MORE
        try:
            push = self._reader.feed(data)
        except WireError as error:
            return self._unreadable(error)
        if push is None:
            return MORE
        self._push = push
        self._proof = ForwardProof(push.commands, push.capabilities.object_format, push.shallow)
        self._proof.feed(self._reader.rest)
        return self._facts(push)

    def end(self) -> Facts | Unreadable:
        try:
            if self._gzip is not None:
                self._gzip.end()
            push = self._push or self._reader.end()
        except WireError as error:
            return self._unreadable(error)
        return self._facts(push, is_whole=True)

    def _facts(self, push: PushRequest, *, is_whole: bool = False) -> Facts:
        unproven = self._proof.unproven
        items: Iterable[GitItem] = (
            RefChange(
                self._repository,
                each.ref,
                each.kind,
                each.old,
                each.new,
                is_forward=each.kind == "update" and self._push is not None and each.ref not in unproven,
                options=push.options,
            )
            for each in push.commands
        )
        return _push_facts(
            self._repository,
            tuple(items) or (GitPushStart(self._repository),),
            read=self._fed,
            can_improve=not (is_whole or self._proof.is_settled),
            context=PushAnswering(push.capabilities, tuple(each.ref for each in push.commands)),
        )

    def _unreadable(self, error: WireError) -> Unreadable:
        refs = tuple(each.ref for each in self._reader.commands)
        return Unreadable("git.commands", error.message, PushAnswering(self._reader.capabilities, refs))


class GitKind:
    """Fetches and pushes over smart HTTP."""

    name = "git"
    methods = frozenset({"GET", "POST"})
    max_held_bytes = MAX_HELD_BYTES
    media_types = frozenset(REQUEST_TYPES.values())
    codings = frozenset({"gzip"})
    """Bodies of fetches are not read, and those of pushes are decoded."""

    def begin(self, head: Head) -> Inspector | Facts | Unreadable:
        endpoint = read_endpoint(head.method, head.target)
        if isinstance(endpoint, Unreadable):
            return endpoint
        if not endpoint.is_discovery and (refused := _refused_fields(head, endpoint)) is not None:
            return refused
        context = endpoint if endpoint.is_discovery else None
        if endpoint.service == FETCH:
            log: dict[str, FactValue] = {
                "git_repository": fact_text(endpoint.repository),
                "git_service": "fetch",
            }
            return Facts((GitFetch(endpoint.repository),), log, context=context)
        if endpoint.is_discovery:
            start = (GitPushStart(endpoint.repository),)
            return _push_facts(endpoint.repository, start, context=context)
        is_coded = any(_is_coding(name, value) for name, value in head.headers)
        return PushInspector(endpoint.repository, GzipBody() if is_coded else None)

    def answer(self, refusal: Refusal, found: Facts | Unreadable | None) -> RefusalAnswer:
        context = None if found is None else found.context
        detail = found.detail if isinstance(found, Unreadable) else ""
        text = " ".join(filter(None, (refusal.message, refusal.hint)))
        if detail:
            text = f"{refusal.message.rstrip('.')}: {detail[:1].lower()}{detail[1:]}"
        if isinstance(context, GitEndpoint):
            body = discovery_refusal(context.service, f"Egress: {text}")
            return RefusalAnswer(200, discovery_media_type(context.service), body)
        if isinstance(context, PushAnswering):
            report = _report(context, refusal, text, is_read=isinstance(found, Facts))
            if report is not None:
                return RefusalAnswer(200, _REPORT_TYPE, report, MAX_DRAINED_BYTES)
        code = CODES.get(refusal.code)
        status = 403 if code is None else code.status
        return RefusalAnswer(status, "text/plain", f"Egress: {text}\n".encode(), MAX_DRAINED_BYTES)

    def recall(self, log: Mapping[str, FactValue]) -> Facts | None:
        repository, options = log.get("git_repository"), log.get("git_options", "")
        if not isinstance(repository, str) or not isinstance(options, str):
            return None
        if is_cut(repository) or is_cut(options):
            return None
        count = log.get("git_refs", 0)
        match log.get("git_service"):
            case "fetch":
                return Facts((GitFetch(repository),), log)
            case "push" if count == 0:
                return Facts((GitPushStart(repository),), log)
            case "push" if isinstance(count, int):
                numbers = range(1, min(count, MAX_COMMANDS) + 1)
                read = [_recalled(repository, log.get(f"git_ref_{number}"), options) for number in numbers]
                changes = tuple(change for change in read if change is not None)
                return Facts(changes, log) if len(changes) == count else None
            case _:
                return None


def _push_facts(
    repository: str,
    items: tuple[GitItem, ...],
    *,
    read: int = 0,
    can_improve: bool = False,
    context: object = None,
) -> Facts:
    log: dict[str, FactValue] = {"git_repository": fact_text(repository), "git_service": "push"}
    changes = [item for item in items if isinstance(item, RefChange)]
    if changes:
        log["git_refs"] = len(changes)
    if changes and changes[0].options:
        log["git_options"] = fact_text(" ".join(quote(each, _OPTION_CHARS) for each in changes[0].options))
    for number, change in enumerate(changes, 1):
        forward = " forward" if change.is_forward else ""
        ref = fact_text(change.ref)
        log[f"git_ref_{number}"] = f"{change.kind} {ref} {change.old} {change.new}{forward}"
    return Facts(items, log, read, can_improve, context)


def _recalled(repository: str, change: FactValue | None, options: str) -> RefChange | None:
    read = _CHANGE.fullmatch(change) if isinstance(change, str) else None
    if read is None or is_cut(read[2]):
        return None
    kind: CommandKind = "create" if read[1] == "create" else "update" if read[1] == "update" else "delete"
    asked = tuple(unquote(each) for each in options.split())
    return RefChange(repository, read[2], kind, read[3], read[4], read[5] is not None, asked)


def _refused_fields(head: Head, endpoint: GitEndpoint) -> Unreadable | None:
    """Return why the body of a service is not taken: it is of another's type, or a push is coded oddly."""
    if any(
        name == "content-type" and value.lower() != REQUEST_TYPES[endpoint.service]
        for name, value in head.headers
    ):
        return Unreadable("body.type", "the type is that of another service")
    codings = [name for name, value in head.headers if _is_coding(name, value)]
    # Coded twice, or by a name that only some servers take for the field, it has several readings.
    if endpoint.service == PUSH and codings not in ([], ["content-encoding"]):
        return Unreadable("body.encoding", "a push is coded at most once")
    return None


def _is_coding(name: str, value: str) -> bool:
    return fold_header(name) == "content-encoding" and value.strip(" \t").lower() != "identity"


def _report(context: PushAnswering, refusal: Refusal, text: str, *, is_read: bool) -> bytes | None:
    """Return the report on a push; None if the client takes none."""
    if not is_read:
        return push_report(context.capabilities, {}, f"Egress: {text}", unpack=text)
    codes = dict(zip(context.refs, refusal.item_codes, strict=False))
    reasons = {ref: _reason(codes.get(ref, refusal.code)) for ref in context.refs}
    return push_report(context.capabilities, reasons, f"Egress: {text}")


def _reason(code: str) -> str:
    """Return the text of a code in the form of git's own reasons; that of a ref without one."""
    known = CODES.get(code)
    if known is None:
        return NOT_SENT_REASON
    message = known.message.rstrip(".")
    return message[:1].lower() + message[1:]
