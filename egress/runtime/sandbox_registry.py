"""The sandboxes of one runtime by name: created once, removed once, and admitted again by a returned proxy.

A name is taken from before a sandbox is created until after it is removed, so two sandboxes of one name never
overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from egress.logger import EventLogger
from egress.runtime.errors import (
    GatewayError,
    GatewayRefusedError,
    SandboxError,
    SandboxExistsError,
    SandboxNotFoundError,
)
from egress.runtime.proxy_client import Admission, ProxyClient, SandboxListener
from egress.runtime.spec import Info, Spec, Values

_log = EventLogger(__name__)


class RegisteredSandbox(Protocol):
    """The part of a sandbox that a returned proxy needs."""

    @property
    def spec(self) -> Spec: ...

    @property
    def admission(self) -> Admission:
        """The first admission: canaries planted in it stay when another proxy admits it."""


class SandboxRegistry[S: RegisteredSandbox]:
    """The sandboxes of one runtime."""

    def __init__(
        self, proxy: ProxyClient, renew: Callable[[S, Admission], Iterable[SandboxListener]]
    ) -> None:
        """`renew` gives a sandbox the files of another admission, and returns its listeners."""
        self._proxy = proxy
        self._renew = renew
        self._sandboxes: dict[str, S] = {}
        self._busy: set[str] = set()
        """Names of sandboxes that are being created or removed."""
        self._returning: set[str] = set()
        """Names of sandboxes that a returned proxy is admitting."""
        self._returns = 0
        self._lock = threading.Lock()

    def add(self, name: str, make: Callable[[], S]) -> None:
        """Register a new sandbox. Raises `SandboxExistsError`, and errors of `make`."""
        with self._lock:
            if name in self._sandboxes or name in self._busy:
                raise SandboxExistsError(
                    f"the sandbox {name} exists already", "remove it first, or choose another name"
                )
            self._busy.add(name)
            returns = self._returns
        # Outside of the lock: creating takes seconds, and other sandboxes go on meanwhile.
        with self._while_busy(name):
            made = make()
            with self._lock:
                self._sandboxes[name] = made
                was_missed = returns != self._returns
        if was_missed:
            # The proxy that admitted the sandbox ended while it was created, and another one returned.
            self._readmit(made)

    def take_over(self, made: S) -> None:
        """Register a sandbox of another runtime, and let the proxy admit it. Raises `SandboxExistsError`."""
        # A proxy that outlived the other runtime has listeners of a door that has ended.
        self._proxy.dismiss(made.spec.name)
        self.add(made.spec.name, lambda: made)
        # A proxy that has ended admits it when it returns.
        with suppress(GatewayError):
            self._readmit(made)

    @contextmanager
    def removing(self, name: str) -> Iterator[S | None]:
        """Unregister a sandbox, and keep its name taken during the removal; None if it does not exist."""
        with self._lock:
            found = self._sandboxes.pop(name, None)
            if found is not None:
                self._busy.add(name)
        if found is None:
            yield None
            return
        with self._while_busy(name):
            yield found

    def find(self, name: str) -> S | None:
        with self._lock:
            return self._sandboxes.get(name)

    def get(self, name: str) -> S:
        """The sandbox of a name. Raises `SandboxNotFoundError`."""
        found = self.find(name)
        if found is None:
            raise SandboxNotFoundError.named(name)
        return found

    def is_returning(self, name: str) -> bool:
        """Whether a returned proxy is admitting the sandbox: it may not know yet what another one revoked."""
        with self._lock:
            return name in self._returning

    @property
    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._sandboxes)

    def list_infos(self, labels: Values, info: Callable[[str], Info]) -> tuple[Info, ...]:
        """The infos of sandboxes with these labels, by name."""
        found = []
        for name in self.names:
            # The sandbox may be removed meanwhile.
            with suppress(SandboxNotFoundError):
                if labels.items() <= self.get(name).spec.labels.items():
                    found.append(info(name))
        return tuple(found)

    # Returned proxies

    def readmit_all(self) -> None:
        """Let a returned proxy admit all sandboxes. Raises `GatewayError` if it ends again."""
        with self._lock:
            self._returns += 1
            sandboxes = list(self._sandboxes.values())
        for each in sandboxes:
            self._readmit(each)

    def _readmit(self, sandbox: S) -> None:
        """Admit one sandbox again. A sandbox that the proxy refuses stays without a network."""
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
        with self._lock:
            self._returning.add(name)
        try:
            rights = sandbox.spec.profile, sandbox.spec.parameters
            admission = self._proxy.admit(name, rights[0], before.seed, parameters=rights[1])
            admission = replace(admission, canaries=before.canaries)
            try:
                self._proxy.hand_over(name, self._renew(sandbox, admission))
            except BaseException:
                self._proxy.dismiss(name)
                raise
        finally:
            with self._lock:
                self._returning.discard(name)

    @contextmanager
    def _while_busy(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(name)
