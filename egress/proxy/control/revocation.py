"""Taking back what is allowed, at once, while the proxy runs: a host, a secret, a sandbox.

A host that was taken back is denied by a rule of its own on top of the rules of the files, so everything
that asks the rules sees it, and it outlasts a reload. A secret is revoked by its name, where values are held:
no value of its source is used, whichever source that is by then and whatever it gives. A sandbox loses its
listeners. In each case what is open and concerned is closed now.

It ends when it is undone, or with the process; a host or a secret can be kept beyond that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Literal, Protocol, get_args

from egress.errors import ContentError, UsageError
from egress.proxy.lanes.connection import LiveConnection
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import Policy, SecretSpec
from egress.rules.language.hosts import (
    HostError,
    HostPattern,
    candidate_patterns,
    is_address,
    parse_host_pattern,
)

RevocationKind = Literal["sandbox", "host", "secret"]
REVOCATION_KINDS: tuple[RevocationKind, ...] = get_args(RevocationKind)
KEPT_KINDS: tuple[RevocationKind, ...] = ("host", "secret")
"""Kinds that can be kept: a later sandbox of the same name is another sandbox."""
REVOKED_CODE = "access.withdrawn"

_HOW_TO_NAME: Mapping[RevocationKind | None, str] = {
    None: "a host is written without port and path, and one without a dot needs --host",
    "host": "write a host like api.example.com, or a pattern like '*.example.com', without port or path",
}
"""Hints about names of which there is no list, by the kind that was said."""

# The loader makes the rule; the host stands for those that are put in its place.
_DENY_RULE = "version: 1\ndeny:\n  - {id: killed, hosts: [killed.invalid]}\n"


class RevocableSecrets(Protocol):
    """The store of secret values."""

    def revoke(self, specs: Iterable[SecretSpec]) -> None: ...

    def restore(self, name: str) -> None: ...


class RevocationStore(Protocol):
    """The revocations that are kept beyond the process. Every call may raise `UnreadableError`."""

    def read(self) -> Mapping[RevocationKind, Iterable[str]]: ...

    def add(self, kind: RevocationKind, name: str) -> None: ...

    def remove(self, kind: RevocationKind, name: str) -> None: ...


class RevocationEngine(Protocol):
    """The engine, as far as it is needed here."""

    @property
    def policy(self) -> Policy: ...
    @property
    def secrets(self) -> RevocableSecrets: ...
    @property
    def live(self) -> Iterable[LiveConnection]: ...
    @property
    def sandboxes(self) -> Iterable[str]: ...

    def swap(self, policy: Policy) -> None: ...


class UnknownNameError(UsageError):
    """Nothing has the name of a revocation."""

    def __init__(self, message: str, hint: str, names: Sequence[str]) -> None:
        """`names` are those that there are, of the kind that was asked for."""
        super().__init__(message, hint)
        self.names = names


@dataclass(frozen=True, slots=True)
class RevocationResult:
    """The result of revoking or restoring access."""

    kind: RevocationKind
    name: str
    connections: int = 0
    """Open connections that were closed."""
    was_known: bool = True
    """False if restoring changed nothing."""
    is_kept: bool = False
    """It holds after a restart as well."""


class Revocations:
    """The revocations in force, applied between the rule files and the engine."""

    def __init__(
        self,
        engine: RevocationEngine,
        shut: Callable[[str], Awaitable[None]],
        reopen: Callable[[str], Awaitable[None]],
        store: RevocationStore | None = None,
    ) -> None:
        """`shut` takes the listeners of a sandbox away, `reopen` brings them back.

        The revocations in the `store` are in force from the start; without one, none can be kept. Raises
        `UnreadableError` where it cannot be read.
        """
        self._engine = engine
        self._shut = shut
        self._reopen = reopen
        self._of: dict[RevocationKind, dict[str, None]] = {kind: {} for kind in REVOCATION_KINDS}
        self.policy = engine.policy
        """The policy of the files; the engine's own has the revocations on top."""
        self._store = store
        self._kept: dict[RevocationKind, dict[str, None]] = {
            kind: dict.fromkeys(names) for kind, names in (store.read() if store else {}).items()
        }
        for kind, names in self._kept.items():
            self._of[kind].update(names)
        if any(self._kept.values()):
            self.swap(self.policy)

    @property
    def kept(self) -> dict[str, list[str]]:
        """The names that stay revoked after a restart, by kind."""
        return {kind: sorted(self._kept.get(kind, ())) for kind in KEPT_KINDS}

    def all(self) -> dict[str, list[str]]:
        """Return the names that are taken back, by kind."""
        return {kind: sorted(names) for kind, names in self._of.items()}

    def swap(self, policy: Policy) -> None:
        """Put the rules of the files in force, less what is taken back."""
        self.policy = policy
        # First: by new rules a secret may come from another source.
        self._revoke()
        self._engine.swap(with_denied_hosts(policy, self._of["host"]))

    def forget(self, sandbox: str) -> None:
        """A sandbox has ended; a later one of its name is another one."""
        self._of["sandbox"].pop(sandbox, None)

    def find(self, name: str, kind: RevocationKind | None = None) -> tuple[RevocationKind, str]:
        """Return what is called that, and its one spelling.

        Raises `UsageError` where nothing is, or more than one thing.
        """
        kinds = [
            found for found in REVOCATION_KINDS if kind in (None, found) and self._is_known(name, found, kind)
        ]
        if not kinds and kind is None and _looks_like_host(name):
            # An operator in an emergency need not look into the rules first: any host name is accepted.
            kinds = ["host"]
        if not kinds:
            raise UnknownNameError(
                f"there is no {kind or 'sandbox, host or secret'} of this name here",
                _HOW_TO_NAME.get(kind, ""),
                self._names(kind),
            )
        if len(kinds) > 1:
            raise UsageError(
                f"the name means a {' and a '.join(kinds)}",
                f"say which with {' or '.join(f'--{found}' for found in kinds)}",
            )
        return kinds[0], canonical_name(name, kinds[0])

    def _names(self, kind: RevocationKind | None) -> Sequence[str]:
        """Return the names of this kind, and those of sandboxes if none was said. Hosts have no list."""
        if kind == "host":
            return ()
        return sorted(self.policy.secrets if kind == "secret" else self._engine.sandboxes)

    async def revoke(self, kind: RevocationKind, name: str, *, keep: bool = False) -> RevocationResult:
        """Take it back, and close what is open and concerned. `kind` and `name` come from `find`.

        Raises `UnreadableError` if it cannot be kept; it is revoked then nevertheless.
        """
        self._of[kind][name] = None
        if kind == "sandbox":
            # First: what is at the door meanwhile must not be in a lane afterwards.
            await self._shut(name)
            if name not in self._of[kind]:
                # The sandbox has ended meanwhile; a new sandbox of this name must not be affected.
                return RevocationResult(kind, name)
        concerned = [carried for carried in self._engine.live if _concerns(carried, kind, name)]
        if kind == "host":
            self.swap(self.policy)
        elif kind == "secret":
            self._revoke()
        for carried in concerned:
            carried.close(REVOKED_CODE)
        # Last: a full disk must not keep access from being revoked now.
        if keep:
            self._keep(kind, name)
        return RevocationResult(kind, name, len(concerned), is_kept=name in self._kept.get(kind, ()))

    def _keep(self, kind: RevocationKind, name: str) -> None:
        if self._store is None:
            raise UsageError("this proxy keeps no revocations", "it has no state folder")
        self._store.add(kind, name)
        self._kept.setdefault(kind, {})[name] = None

    async def restore(self, kind: RevocationKind, name: str) -> RevocationResult:
        """Undo `revoke`. Raises `UnreadableError` if it would come back with a restart: nothing is undone."""
        # Not only what this process knows: another one may have kept it since.
        if self._store is not None and kind in KEPT_KINDS:
            self._store.remove(kind, name)
            self._kept.get(kind, {}).pop(name, None)
        if name not in self._of[kind]:
            return RevocationResult(kind, name, was_known=False)
        if kind == "sandbox":
            await self._reopen(name)
        del self._of[kind][name]
        if kind == "host":
            self.swap(self.policy)
        elif kind == "secret":
            self._engine.secrets.restore(name)
        return RevocationResult(kind, name)

    def _revoke(self) -> None:
        """Revoke every secret that is taken back: by new rules one may come from another source."""
        known = self.policy.secrets
        revoked = [known[name] for name in self._of["secret"] if name in known]
        if revoked:
            self._engine.secrets.revoke(revoked)

    def _is_known(self, name: str, kind: RevocationKind, asked: RevocationKind | None) -> bool:
        if name in self._of[kind]:
            return True
        if kind == "sandbox":
            return name in self._engine.sandboxes
        if kind == "secret":
            return name in self.policy.secrets
        try:
            host = _pattern(name)
        except HostError:
            return False
        # An explicit host may be revoked before any sandbox asks for it.
        return asked == "host" or self._has_host(host)

    def _has_host(self, host: HostPattern) -> bool:
        entries = self.policy.entries
        if is_address(host.suffix):
            address = ip_address(host.suffix)
            return any(address in item.network for item in self.policy.networks)
        if host in entries or (
            not host.stars and any(other in entries for other in candidate_patterns(host.suffix))
        ):
            return True
        return any(_concerns(carried, "host", str(host)) for carried in self._engine.live)


def with_denied_hosts(policy: Policy, hosts: Iterable[str]) -> Policy:
    """Return the policy with a deny rule for these hosts on top, under a digest of its own."""
    names = sorted(hosts)
    if not names:
        return policy
    extra = load([RuleText("egress kill", _DENY_RULE)]).policy
    if extra is None:
        raise ContentError("these hosts cannot be revoked", "stop the proxy instead")
    patterns = tuple(_pattern(name) for name in names)
    deny = [replace(rule, predicates=replace(rule.predicates, hosts=patterns)) for rule in extra.deny]
    digest = hashlib.sha256(f"{policy.digest} killed {' '.join(names)}".encode()).hexdigest()
    # Routes are made from the rules; those of the other policy do not know this one.
    return replace(policy, deny=(*policy.deny, *deny), digest=digest, routes={}, shared_routes={})


def _pattern(name: str) -> HostPattern:
    """The pattern of a host, or of an address, which rules would write as a network; raises `HostError`."""
    try:
        address = str(ip_address(name))
    except ValueError:
        return parse_host_pattern(name)
    if not is_address(address):
        raise HostError("an address with a zone is never dialled")
    return HostPattern(0, address)


def _looks_like_host(name: str) -> bool:
    """Tell whether a name can only mean a host: it has a dot, a star or a colon, and is one."""
    try:
        _pattern(name)
    except HostError:
        return False
    return not set(name).isdisjoint(".*:")


def canonical_name(name: str, kind: RevocationKind) -> str:
    """Return the one spelling of a name; raises `HostError` for one that is no host."""
    return str(_pattern(name)) if kind == "host" else name


def _concerns(carried: LiveConnection, kind: RevocationKind, name: str) -> bool:
    if kind == "sandbox":
        return carried.admitted.identity.sandbox == name
    if kind == "secret":
        return name in carried.secrets
    return _pattern(name).matches(carried.admitted.destination.host)
