"""What a sandbox could reach if its wall had a hole: a machine of the internet, and this machine.

The internet is a container in the engine's usual network, which answers everything on some ports. Another
container there is the good twin: a plain one, as people run them, that knows a name for the machine it runs
on. What it cannot reach either proves nothing. A service for metadata, which only machines of a cloud have,
is in a network of its own, where twins are put that are to reach it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from docker import APIClient

from tests.proxy.serve_process import until
from tests.runtime.escape_cases import METADATA, PROBE, Attempt
from tests.runtime.listening_host import ListeningHost

_METADATA_GUEST: Final = "169.254.169.10"

_SERVER: Final = Path(__file__).with_name("fake_internet.py").read_text(encoding="utf-8")


class OutsideWorld:
    """From `with` to its end."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._api = APIClient(version="auto")
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            parts.callback(self._api.close)
            self._machine = parts.enter_context(ListeningHost())
            self.port = self._machine.port
            self.internet = self._started(parts, _SERVER)
            self._metadata = self._network(parts)
            self._started(parts, _SERVER, network=self._metadata, address=METADATA)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    @property
    def machine(self) -> list[str]:
        """Every address of this machine that others could dial."""
        return [address for address in self._machine.addresses if not address.startswith("127.")]

    def twin(self, attempts: Iterable[Attempt]) -> Mapping[str, object]:
        """What a plain container reaches."""
        usual: list[Attempt] = []
        apart: list[Attempt] = []
        for attempt in attempts:
            (apart if METADATA in attempt else usual).append(attempt)
        found = self._reached(usual, "bridge") if usual else {}
        return {**found, **(self._reached(apart, self._metadata, _METADATA_GUEST) if apart else {})}

    def _reached(self, attempts: Iterable[Attempt], network: str, address: str = "") -> Mapping[str, object]:
        with ExitStack() as parts:
            words = map(json.dumps, attempts)
            made = self._container(parts, PROBE, *words, network=network, address=address)
            self._api.start(made)
            self._api.wait(made)
            found = json.loads(self._api.logs(made, stderr=False))
        assert isinstance(found, dict)
        return found

    def plain(self) -> str:
        """A plain container that waits, until the end of all this."""
        made = self._container(self._parts, "import signal; signal.pause()")
        self._api.start(made)
        return made

    def run(self, container: str, *words: str, user: str) -> str:
        """Have the engine run a command in a container, as whomever it likes."""
        command = self._api.exec_create(container, list(words), user=user)["Id"]
        out = self._api.exec_start(command)
        assert isinstance(out, bytes)
        return out.decode()

    def _started(self, parts: ExitStack, program: str, network: str = "bridge", address: str = "") -> str:
        made = self._container(parts, program, network=network, address=address)
        self._api.start(made)
        until(lambda: self._api.logs(made), "the internet to be there")
        (found,) = self._api.inspect_container(made)["NetworkSettings"]["Networks"].values()
        return str(found["IPAddress"])

    def _network(self, parts: ExitStack) -> str:
        """One that the machine has no address in, and no route to: nobody's metadata is hidden by it."""
        options = {"com.docker.network.bridge.inhibit_ipv4": "true"}
        name = f"egress-test-{secrets.token_hex(4)}"
        made = str(self._api.create_network(name, driver="bridge", options=options)["Id"])
        parts.callback(self._api.remove_network, made)
        return made

    def _container(
        self, parts: ExitStack, program: str, *arguments: str, network: str = "bridge", address: str = ""
    ) -> str:
        config: dict[str, object] = {
            "Image": self._image,
            "Entrypoint": ["python3", "-c", program, *arguments],
            "HostConfig": {"NetworkMode": network, "ExtraHosts": ["host.docker.internal:host-gateway"]},
        }
        if address:
            config["NetworkingConfig"] = {
                "EndpointsConfig": {network: {"IPAMConfig": {"LinkLocalIPs": [address]}}}
            }
        made = str(self._api.create_container_from_config(config)["Id"])  # type: ignore[no-untyped-call]
        parts.callback(self._api.remove_container, made, force=True, v=True)
        return made
