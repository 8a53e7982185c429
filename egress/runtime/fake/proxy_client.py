"""A proxy in memory: admits every sandbox, and serves none."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from egress.runtime.errors import SandboxExistsError
from egress.runtime.proxy_client import (
    Admission,
    Bar,
    LivenessConnection,
    PlantedCanary,
    SandboxListener,
)
from egress.runtime.spec import NO_VALUES


class FakeProxyClient:
    """Admits every sandbox, and records which."""

    def __init__(
        self,
        placeholders: Mapping[str, Mapping[str, str]] | None = None,
        canaries: tuple[PlantedCanary, ...] = (),
    ) -> None:
        self._placeholders = placeholders or {}
        self._canaries = canaries
        self.admitted: dict[str, str | None] = {}
        """Profiles by sandbox."""
        self.parameters: dict[str, dict[str, str]] = {}
        """Parameters by sandbox."""

    def admit(
        self,
        name: str,
        profile: str | None = None,
        seed: str = "",
        *,
        parameters: Mapping[str, str] = NO_VALUES,
    ) -> Admission:
        if name in self.admitted:
            raise SandboxExistsError(
                f"the proxy has a sandbox {name} already", "remove it, or choose another name"
            )
        self.admitted[name] = profile
        self.parameters[name] = dict(parameters)
        authority = f"-----BEGIN CERTIFICATE-----\nfake {name}\n-----END CERTIFICATE-----\n"
        return Admission(name, authority, self._placeholders, self._canaries, seed or name)

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        """Do nothing: no client connects."""

    def bar(self, name: str, bar: Bar) -> None:
        """Do nothing: a sandbox has no access here anyway."""

    def dismiss(self, name: str) -> None:
        self.admitted.pop(name, None)

    def open_liveness(self) -> LivenessConnection:
        return _EndlessLiveness()


class _EndlessLiveness:
    def __init__(self) -> None:
        self._closed = threading.Event()

    def wait(self) -> None:
        self._closed.wait()

    def close(self) -> None:
        self._closed.set()
