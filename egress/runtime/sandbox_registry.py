"""The sandboxes of one runtime by name: made once, taken away once, and admitted by every proxy that returns.

What they are made of is the runtime's. A name is taken from before a sandbox is made until after it is gone,
so that no two of one name ever meet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

import structlog

from egress.runtime.errors import (
    GatewayError,
    GatewayRefusedError,
    SandboxError,
    SandboxExistsError,
    SandboxNotFoundError,
)
from egress.runtime.proxy_client import Admission, ProxyClient, SandboxListener
from egress.runtime.spec import Info, Spec, Values

_log = structlog.get_logger(__name__)


class Registered(Protocol):
    """One sandbox, as far as a proxy that returns is concerned."""

    @property
    def spec(self) -> Spec: ...

    @property
    def admission(self) -> Admission:
        """The one it was made by: what is planted in it stays when another proxy admits it."""


class SandboxRegistry[S: Registered]:
    """Who is there."""

    def __init__(
        self, gateway: ProxyClient, renewed: Callable[[S, Admission], Iterable[SandboxListener]]
    ) -> None:
        """`renewed` gives a sandbox the files of another admission, and returns its listeners."""
        self._gateway = gateway
        self._renewed = renewed
        self._there: dict[str, S] = {}
        self._busy: set[str] = set()
        """Names of those that are being made, or taken away."""
        self._returns = 0
        self._lock = threading.Lock()

    def add(self, name: str, make: Callable[[], S]) -> None:
        """Have one made. Raises `SandboxExistsError`, and whatever `make` does: then there is none."""
        with self._lock:
            if name in self._there or name in self._busy:
                raise SandboxExistsError(
                    f"there is a sandbox {name} already", "remove it first, or take another name"
                )
            self._busy.add(name)
            returns = self._returns
        with self._while_busy(name):
            made = make()
            with self._lock:
                self._there[name] = made
                was_missed = returns != self._returns
        if was_missed:
            # The proxy that admitted it has gone, and another one came while it was made.
            self._readmit(made)

    @contextmanager
    def removing(self, name: str) -> Iterator[S | None]:
        """Let go of one, for it to be taken away meanwhile; None where there is none."""
        with self._lock:
            found = self._there.pop(name, None)
            if found is not None:
                self._busy.add(name)
        if found is None:
            yield None
            return
        with self._while_busy(name):
            yield found

    def find(self, name: str) -> S | None:
        with self._lock:
            return self._there.get(name)

    def get(self, name: str) -> S:
        """The one of that name. Raises `SandboxNotFoundError`."""
        found = self.find(name)
        if found is None:
            raise SandboxNotFoundError(f"there is no sandbox {name}", "create it first")
        return found

    @property
    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._there)

    def list_infos(self, labels: Values, info: Callable[[str], Info]) -> tuple[Info, ...]:
        """What `info` says of those with these labels, by name."""
        found = []
        for name in self.names:
            # It may go meanwhile.
            with suppress(SandboxNotFoundError):
                if labels.items() <= self.get(name).spec.labels.items():
                    found.append(info(name))
        return tuple(found)

    # A proxy that has returned

    def readmit_all(self) -> None:
        """Have a new proxy serve those of the old one. Raises `GatewayError` where it is gone again."""
        with self._lock:
            self._returns += 1
            there = list(self._there.values())
        for each in there:
            self._readmit(each)

    def _readmit(self, sandbox: S) -> None:
        """One that the new proxy does not take stays without any network."""
        name = sandbox.spec.name
        try:
            self._admit_again(sandbox)
        except SandboxExistsError:
            _log.info("sandbox.known", sandbox=name)
        except GatewayError as error:
            if not isinstance(error, GatewayRefusedError):
                raise
            _log.error("sandbox.not_readmitted", sandbox=name, error=error.message, hint=error.hint)
        except (SandboxError, OSError) as error:
            _log.error("sandbox.not_readmitted", sandbox=name, error=str(error))
        else:
            _log.info("sandbox.readmitted", sandbox=name)

    def _admit_again(self, sandbox: S) -> None:
        name, before = sandbox.spec.name, sandbox.admission
        admission = self._gateway.admit(name, sandbox.spec.profile, before.seed)
        admission = replace(admission, canaries=before.canaries)
        try:
            self._gateway.hand_over(name, self._renewed(sandbox, admission))
        except BaseException:
            self._gateway.dismiss(name)
            raise

    @contextmanager
    def _while_busy(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(name)
