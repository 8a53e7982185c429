"""Stages whose clients are given a kit, and nothing of what the table of clients would have them set.

What a client's tests set for themselves (where caches lie) and which index it asks are no part of a kit, so
they stay. Its files and the commands that its user would run once do not: the kit has to do without.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from egress.ca import public_roots
from egress.runtime.kit import Kit, ProxyAddress, make_kit
from tests.proxy.clients.client import Client, Verb
from tests.proxy.clients.program import Ran
from tests.proxy.clients.stage import Stage
from tests.runtime.kit.kit_mounts import entering, lay

INSIDE = "/etc/egress"
INDEXES = ("{host}", "{other}")
"""Where a variable of a client says these, it says which server is asked, and not by which way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KitStage[U](Stage[U]):
    """Clients run here have the variables, and are run by the words in front."""

    variables: Mapping[str, str]
    words: tuple[str, ...] = ()

    def environment(self, client: Client) -> dict[str, str]:
        asked = {k: v for k, v in client.variables.items() if any(word in v for word in INDEXES)}
        told = {name: self.filled(text) for name, text in {**client.around, **asked}.items()}
        return {**told, **self.variables}

    async def prepare(self, client: Client) -> None:
        """Nothing: what the table names is not done."""

    async def run(self, client: Client, *command: str | Path) -> Ran:
        program, *arguments = command
        # In there only the search path of the system is known.
        return await Stage.run(self, client, *self.words, shutil.which(program) or program, *arguments)

    async def begun(
        self, client: Client, verb: Verb, path: str
    ) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        raise NotImplementedError(f"nothing here has {client.name} {verb} {path}")


def whole[U](stage: Stage[U], folder: Path) -> KitStage[U]:
    """Give it the whole kit, laid in a mount namespace as it would be in a sandbox."""
    kit = _kit(stage, INSIDE)
    return _given(stage, kit.variables, entering(kit, lay(kit, folder / "kit"), folder))


def by_variables[U](stage: Stage[U], folder: Path) -> KitStage[U]:
    """Give it the variables and the files that they name, and mount nothing."""
    kit = _kit(stage, str(folder / "kit"))
    lay(kit, folder / "kit")
    return _given(stage, kit.variables)


def by_mounts[U](stage: Stage[U], folder: Path) -> KitStage[U]:
    """Give it the mounts, and of the variables only those that name the proxy."""
    kit = _kit(stage, INSIDE)
    proxies = {name: value for name, value in kit.variables.items() if name.upper().endswith("_PROXY")}
    return _given(stage, proxies, entering(kit, lay(kit, folder / "kit"), folder))


def _kit[U](stage: Stage[U], inside: str) -> Kit:
    door = ProxyAddress("127.0.0.1", stage.scene.stack.port)
    return make_kit(stage.scene.ca.read_bytes(), public_roots(), door, folder=inside)


def _given[U](stage: Stage[U], variables: Mapping[str, str], words: tuple[str, ...] = ()) -> KitStage[U]:
    return KitStage(stage.scene, stage.bundle, stage.home, variables=variables, words=words)
