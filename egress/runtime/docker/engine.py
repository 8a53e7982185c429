"""The container engine: the few calls that sandboxes need, with types, and with errors of ours.

It speaks to the engine of this machine over a unix socket and to no other: what a sandbox mounts, and the
door's socket, are here. Settings of the Docker client that lie in home directories have no part in it; they
can name another engine, and proxies with passwords.

What the engine says of an error is for the operator. It decides nothing, and makes nothing by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import BinaryIO, Final

from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import IPAMConfig, IPAMPool

from egress.runtime.docker.sdk_transport import SdkTransport
from egress.runtime.errors import (
    EngineError,
    EngineUnavailableError,
    ImageMissingError,
    SandboxError,
    SpecError,
    UnsupportedError,
)

type Json = Mapping[str, object]

ENGINE_SOCKET: Final = Path("/var/run/docker.sock")
MIN_API_VERSION: Final = (1, 41)
_CALL_TIMEOUT: Final = 120
_MAX_REASON_LENGTH: Final = 300
_MAX_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class Container:
    """One that exists."""

    id: str
    name: str
    image: str
    state: str
    """As the engine calls it: created, running, paused, restarting, removing, exited or dead."""
    labels: Mapping[str, str]
    created: int


@dataclass(frozen=True, slots=True)
class ContainerState:
    """How a container is."""

    state: str
    exit_code: int
    created: datetime

    @property
    def is_alive(self) -> bool:
        return self.state in ("running", "paused")


class ContainerGoneError(EngineError):
    """What was to be used is not there any more. Never reaches a user: others say of what it was a part."""


class DockerEngine:
    """A connection to the engine. May be used by several threads."""

    def __init__(self, socket: Path = ENGINE_SOCKET) -> None:
        """Connect. Raises `EngineUnavailableError`, or `UnsupportedError` for one that is too old."""
        self.socket = socket.resolve()
        if not self.socket.is_socket():
            raise EngineUnavailableError(f"no engine answers at {socket}", "start it, or name its socket")
        said = self._read_version()
        self.version, self.api_version = str(said["Version"]), str(said["ApiVersion"])
        if tuple(map(int, self.api_version.split("."))) < MIN_API_VERSION:
            raise UnsupportedError(
                f"the engine speaks version {self.api_version} of its API", "upgrade it to 20.10 or newer"
            )
        self._api = self._client(self.api_version)

    def _read_version(self) -> Json:
        # By a client of its own: one that finds nobody while it is made cannot be closed.
        client = self._client(".".join(map(str, MIN_API_VERSION)))
        try:
            with _translated_errors("answer", self.socket):
                return client.version(api_version=False)
        finally:
            client.close()

    def _client(self, version: str) -> APIClient:
        client = APIClient(base_url=f"unix://{self.socket}", version=version)
        client.mount(
            client.base_url, SdkTransport(str(self.socket), _CALL_TIMEOUT, max_pool_size=_MAX_CONNECTIONS)
        )
        client.timeout = _CALL_TIMEOUT
        return client

    @property
    def major(self) -> int:
        """The first number of its version; 0 where it has none."""
        found = re.match(r"\d+", self.version)
        return int(found[0]) if found else 0

    def close(self) -> None:
        self._api.close()

    def runtimes(self) -> frozenset[str]:
        """The names of what it can run containers with."""
        with _translated_errors("tell its runtimes", self.socket):
            found = self._api.info().get("Runtimes")
        return frozenset(found) if isinstance(found, dict) else frozenset()

    # Images

    def image_id(self, name: str) -> str:
        """Raises `ImageMissingError`, and `SpecError` for what is no name."""
        with _translated_errors("look at an image", self.socket):
            try:
                return str(self._api.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]
            except NotFound:
                raise ImageMissingError(
                    f"the engine has no image {name}", "pull or build it; nothing is fetched by itself"
                ) from None
            except APIError as error:
                if "invalid reference format" not in _reason(error):
                    raise
                raise SpecError(
                    "image is not the name of an image", "give its name, with a tag or a digest"
                ) from None

    def image_volumes(self, image: str) -> tuple[str, ...]:
        """The folders that an image declares as volumes."""
        with _translated_errors("look at an image", self.socket):
            found = self._api.inspect_image(image).get("Config") or {}  # type: ignore[no-untyped-call]
        return tuple(str(path) for path in found.get("Volumes") or ())

    def import_image(self, archive: BinaryIO, repository: str, tag: str, changes: Sequence[str] = ()) -> None:
        """Make an image of one layer."""
        with _translated_errors("make an image", self.socket):
            self._api.import_image_from_data(archive, repository, tag, changes=list(changes))
        self.image_id(f"{repository}:{tag}")

    def tag_image(self, name: str, repository: str, tag: str) -> None:
        """Give an image another name besides. Raises `ImageMissingError`."""
        found = self.image_id(name)
        with _translated_errors("name an image", self.socket):
            self._api.tag(found, repository, tag, force=True)

    def remove_image(self, name: str) -> None:
        with _translated_errors("remove an image", self.socket), suppress(NotFound):
            self._api.remove_image(name, force=True)

    # Networks and volumes

    def networks(self) -> list[Json]:
        with _translated_errors("list networks", self.socket):
            return list(self._api.networks())

    def create_network(
        self, name: str, subnet: IPv4Network, options: Mapping[str, str], labels: Mapping[str, str]
    ) -> str:
        """Make one that leads nowhere, and return its id. Raises `EngineError`."""
        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
        with _translated_errors("make a network", self.socket):
            made = self._api.create_network(
                name,
                driver="bridge",
                options=dict(options),
                ipam=IPAMConfig(pool_configs=[pool]),
                internal=True,
                labels=dict(labels),
                enable_ipv6=False,
            )
        return str(made["Id"])

    def inspect_network(self, network: str) -> Json:
        with _translated_errors("look at a network", self.socket):
            found: Json = self._api.inspect_network(network)
            return found

    def remove_network(self, network: str) -> None:
        with _translated_errors("remove a network", self.socket), suppress(NotFound):
            self._api.remove_network(network)

    def create_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with _translated_errors("make a volume", self.socket):
            self._api.create_volume(name, labels=dict(labels))

    def volumes(self, label: str) -> list[Json]:
        with _translated_errors("list volumes", self.socket):
            return list(self._api.volumes(filters={"label": [label]})["Volumes"] or ())

    def remove_volume(self, name: str) -> None:
        with _translated_errors("remove a volume", self.socket), suppress(NotFound):
            self._api.remove_volume(name, force=True)

    # Containers

    def create_container(self, name: str, config: Json) -> str:
        """Returns its id."""
        with _translated_errors("make a container", self.socket):
            try:
                made = self._api.create_container_from_config(dict(config), name)  # type: ignore[no-untyped-call]
                return str(made["Id"])
            except ImageNotFound:
                raise ImageMissingError(
                    f"the engine has no image {config.get('Image')}",
                    "pull or build it; nothing is fetched by itself",
                ) from None

    def start_container(self, container: str) -> None:
        with _translated_errors("start a container", self.socket):
            self._api.start(container)

    def rename_container(self, container: str, name: str) -> None:
        with _translated_errors("rename a container", self.socket):
            self._api.rename(container, name)

    def pause_container(self, container: str) -> None:
        with _translated_errors("pause a container", self.socket):
            self._api.pause(container)

    def resume_container(self, container: str) -> None:
        with _translated_errors("resume a container", self.socket):
            self._api.unpause(container)

    def stop_container(self, container: str, grace: int) -> None:
        """End it politely; after so many seconds not."""
        with _translated_errors("stop a container", self.socket), suppress(NotFound):
            self._api.stop(container, timeout=grace)

    def remove_container(self, container: str) -> None:
        """End it and take it away, with its unnamed volumes."""
        with _translated_errors("remove a container", self.socket), suppress(NotFound):
            try:
                self._api.remove_container(container, v=True, force=True)
            except APIError as error:
                # Somebody else is at it, or it goes by itself.
                if error.status_code != 409:
                    raise
                self._api.wait(container, timeout=_CALL_TIMEOUT, condition="removed")

    def put_archive(self, container: str, folder: str, archive: bytes) -> None:
        """Have the engine itself lay down files, as root. Not for what others made."""
        with _translated_errors("lay down files", self.socket):
            self._api.put_archive(container, folder, archive)

    def container_state(self, container: str) -> ContainerState | None:
        """How it is; None where it is not."""
        with _translated_errors("look at a container", self.socket):
            try:
                found = self._api.inspect_container(container)
            except NotFound:
                return None
        state = found["State"]
        return ContainerState(
            str(state["Status"]), int(state["ExitCode"]), datetime.fromisoformat(str(found["Created"]))
        )

    def containers(self, *labels: str) -> list[Container]:
        """Those with all of these labels, also where they do not run."""
        with _translated_errors("list containers", self.socket):
            found = self._api.containers(all=True, filters={"label": list(labels)})
        return [
            Container(
                str(each["Id"]),
                str(next(iter(each["Names"] or ()), "")).removeprefix("/"),
                str(each["Image"]),
                str(each["State"]),
                {str(name): str(value) for name, value in (each["Labels"] or {}).items()},
                int(each["Created"]),
            )
            for each in found
        ]

    # Commands

    def create_exec(
        self,
        container: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        user: str,
        has_input: bool,
        has_terminal: bool,
    ) -> str:
        """Returns the id of a command that is ready to begin. Raises `GoneError` where no container is."""
        with _translated_errors("prepare a command", self.socket):
            made = self._api.exec_create(
                container,
                list(argv),
                environment=dict(env),
                user=user,
                stdin=has_input,
                tty=has_terminal,
            )
        return str(made["Id"])

    def exec_status(self, command: str) -> int | None:
        """The status of a command; None while it runs. Raises `GoneError` when its container was removed."""
        with _translated_errors("look at a command", self.socket):
            found = self._api.exec_inspect(command)
        code = found.get("ExitCode")
        return None if found.get("Running") or code is None else int(code)

    def resize_exec(self, command: str, rows: int, columns: int) -> None:
        with _translated_errors("resize a terminal", self.socket):
            self._api.exec_resize(command, rows, columns)

    # Events

    @contextmanager
    def events(self, *labels: str) -> Iterator[Iterator[Json]]:
        """What happens to containers with these labels, as the engine says it."""
        with _translated_errors("tell events", self.socket):
            stream = self._api.events(decode=True, filters={"type": ["container"], "label": list(labels)})
        try:
            yield stream
        finally:
            stream.close()


@contextmanager
def _translated_errors(what: str, socket: Path) -> Iterator[None]:
    """Turn errors of the SDK into ours."""
    try:
        yield
    except SandboxError:
        raise
    except NotFound as error:
        raise ContainerGoneError(
            f"the engine did not {what}: {_reason(error)}", "look whether it was removed"
        ) from None
    except APIError as error:
        raise EngineError(f"the engine did not {what}: {_reason(error)}", "look into its log") from None
    except PermissionError:
        raise _permission_error(socket) from None
    except (DockerException, OSError) as error:
        if "Permission denied" in str(error):
            raise _permission_error(socket) from None
        raise EngineUnavailableError(
            f"the engine at {socket} did not answer ({type(error).__name__})",
            "see whether it runs, and its log",
        ) from None


def _permission_error(socket: Path) -> EngineUnavailableError:
    return EngineUnavailableError(f"{socket} is not open to this user", "join the group of the socket")


def _reason(error: APIError) -> str:
    """What the engine gives as the reason, as one short line."""
    text = re.sub(r"\s+", " ", str(error.explanation or type(error).__name__))
    return "".join(letter for letter in text if letter.isprintable())[:_MAX_REASON_LENGTH]
