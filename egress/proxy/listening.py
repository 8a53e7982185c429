"""The listeners of a proxy: opened together, taken away from a sandbox, and brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from egress.errors import UnreadableError
from egress.proxy.listener import Authentication, Listener, listen
from egress.proxy.settings import Listen, Settings


class Door(Protocol):
    """Where connections come in."""

    async def open(self, listener: Listener) -> tuple[str, int]: ...

    async def close_sandbox(self, sandbox: str) -> None: ...


class Listening:
    """Which addresses are open, for which sandbox."""

    def __init__(self, door: Door, values: Settings, password: bytes) -> None:
        """`password` is the digest of the one that clients have to give, or empty."""
        self._door = door
        self._sandbox = values.sandbox
        self._wanted = values.listen
        self._how: Authentication = "password" if password else "network" if values.network else "owner-uid"
        self._password = password
        self._open: tuple[Listen, ...] = ()

    @property
    def addresses(self) -> Mapping[str, tuple[Listen, ...]]:
        """What is open, by sandbox."""
        return {self._sandbox: self._open} if self._open else {}

    async def open(self) -> None:
        """Open all; raises `UnreadableError` when one cannot be, and then none is."""
        found: list[Listen] = []
        for at in self._wanted:
            try:
                sock = listen(at.host, at.port)
            except OSError as error:
                await self._door.close_sandbox(self._sandbox)
                raise _taken(at, error) from None
            item = Listener(f"proxy {at}", "proxy", self._sandbox, sock, self._how, self._password)
            found.append(Listen(*await self._door.open(item)))
        # A port that the kernel chose stays the same one.
        self._open = self._wanted = tuple(found)

    async def shut(self, sandbox: str) -> None:
        """Close the listeners of a sandbox, and what came in by them and is in no lane yet."""
        await self._door.close_sandbox(sandbox)
        if sandbox == self._sandbox:
            self._open = ()

    async def reopen(self, sandbox: str) -> None:
        """Open them again."""
        if sandbox == self._sandbox and not self._open:
            await self.open()


def _taken(at: Listen, error: OSError) -> UnreadableError:
    reason = (error.strerror or type(error).__name__).lower()
    return UnreadableError(
        f"the proxy cannot listen on {at}: {reason}", "stop what listens there, or name another --listen"
    )
