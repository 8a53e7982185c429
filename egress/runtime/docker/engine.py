"""A typed client of the container engine, limited to the calls that sandboxes need.

It connects to an engine of this machine over a unix socket: mounts and the door's socket are local. The
module `engine_socket` finds that socket. All other settings of the Docker client are ignored, among them its
proxies with passwords.

Error texts of the engine are shown to the operator. No decision depends on them, except where a comment says
so.
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

from egress.runtime.docker.engine_socket import ENGINE_SOCKET, EngineSocket, unfit_engine
from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.docker.sandbox_user import ImageOrigin
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

MIN_API_VERSION: Final = (1, 41)
_CALL_TIMEOUT: Final = 120
_MAX_REASON_LENGTH: Final = 300
_MAX_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class Container:
    """A container at the engine."""

    id: str
    name: str
    image: str
    state: str
    """The engine's own word: created, running, paused, restarting, removing, exited or dead."""
    labels: Mapping[str, str]
    created: int


@dataclass(frozen=True, slots=True)
class OwnImage:
    """An image at the engine that was made here."""

    id: str
    names: tuple[str, ...]
    """With their tags; none of an image that a newer one has taken the name of."""
    created: int


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container."""

    state: str
    exit_code: int
    created: datetime

    @property
    def is_alive(self) -> bool:
        return self.state in ("running", "paused")


class ContainerGoneError(EngineError):
    """The container is gone. Callers translate it into an error about the sandbox; users never see it."""


class DockerEngine:
    """A connection to the engine. Several threads may use it."""

    def __init__(self, socket: Path = ENGINE_SOCKET) -> None:
        """Connect. Raises `EngineUnavailableError`, or `UnsupportedError` for an old engine."""
        self.socket = socket.resolve()
        if not self.socket.is_socket():
            raise EngineSocket(socket).no_answer()
        said = self._read_version()
        self.version, self.api_version = str(said["Version"]), str(said["ApiVersion"])
        if unfit := unfit_engine(socket, said):
            raise unfit
        if tuple(map(int, self.api_version.split("."))) < MIN_API_VERSION:
            raise UnsupportedError(
                f"the engine's API version {self.api_version} is too old", "upgrade it to 20.10 or newer"
            )
        self._api = self._client(self.api_version)

    def _read_version(self) -> Json:
        # A client of its own: the SDK leaks a client whose constructor fails to connect.
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
        """The first number of the engine's version; 0 if it has none."""
        found = re.match(r"\d+", self.version)
        return int(found[0]) if found else 0

    def close(self) -> None:
        self._api.close()

    def runtimes(self) -> frozenset[str]:
        """The names of the engine's runtimes."""
        with _translated_errors("list its runtimes", self.socket):
            found = self._api.info().get("Runtimes")
        return frozenset(found) if isinstance(found, dict) else frozenset()

    def maps_users(self) -> bool:
        """Return whether the user ids of containers are others than the same ids of the machine."""
        with _translated_errors("describe its security", self.socket):
            options = self._api.info().get("SecurityOptions") or ()
        return any(each in str(option) for option in options for each in ("name=userns", "name=rootless"))

    # Images

    def image_id(self, name: str) -> str:
        """The id of an image. Raises `ImageMissingError`, and `SpecError` for an invalid name."""
        with _translated_errors("look at an image", self.socket):
            try:
                return str(self._api.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]
            except NotFound:
                raise ImageMissingError(
                    f"the engine has no image {name}",
                    "pull or build it: images are never pulled automatically",
                ) from None
            # The engine reports an invalid name only in its text.
            except APIError as error:
                if "invalid reference format" not in _reason(error):
                    raise
                raise SpecError(
                    "image is not a valid image name", "give its name, with a tag or a digest"
                ) from None

    def image_volumes(self, image: str) -> tuple[str, ...]:
        """The folders that an image declares as volumes."""
        with _translated_errors("look at an image", self.socket):
            found = self._api.inspect_image(image).get("Config") or {}  # type: ignore[no-untyped-call]
        return tuple(str(path) for path in found.get("Volumes") or ())

    def image_origin(self, image: str) -> ImageOrigin:
        """The labels of an image, and the instructions that made it."""
        with _translated_errors("look at an image", self.socket):
            found = self._api.inspect_image(image).get("Config") or {}  # type: ignore[no-untyped-call]
            steps = self._api.history(image)  # type: ignore[no-untyped-call]
        return ImageOrigin(
            frozenset(map(str, found.get("Labels") or ())), tuple(str(each["CreatedBy"]) for each in steps)
        )

    def import_image(self, archive: BinaryIO, repository: str, tag: str, changes: Sequence[str] = ()) -> None:
        """Import a tar archive as an image of one layer, with a label that says that it is ours."""
        labelled = [*changes, f"LABEL {IMAGE_LABEL}={repository}"]
        with _translated_errors("make an image", self.socket):
            self._api.import_image_from_data(archive, repository, tag, changes=labelled)
        self.image_id(f"{repository}:{tag}")

    def tag_image(self, name: str, repository: str, tag: str) -> None:
        """Give an image a second name. Raises `ImageMissingError`."""
        found = self.image_id(name)
        with _translated_errors("name an image", self.socket):
            self._api.tag(found, repository, tag, force=True)

    def images(self, label: str) -> list[OwnImage]:
        """The images with a label."""
        with _translated_errors("list images", self.socket):
            found = self._api.images(filters={"label": label})
        return [
            OwnImage(
                str(each["Id"]),
                # An image without a name is listed with one that no image can have.
                tuple(name for name in map(str, each.get("RepoTags") or ()) if name != "<none>:<none>"),
                int(each["Created"]),
            )
            for each in found
        ]

    def untag_image(self, name: str) -> None:
        """Remove a name of an image, and the image with its last. Raises `EngineError` if it is in use."""
        with _translated_errors("remove an image", self.socket), suppress(NotFound):
            self._api.remove_image(name)

    def remove_image(self, name: str) -> None:
        with _translated_errors("remove an image", self.socket), suppress(NotFound):
            self._api.remove_image(name, force=True)

    def commit(self, container: str, repository: str, tag: str, labels: Mapping[str, str]) -> str:
        """Make an image of the file system of a container, without its mounts; returns its id.

        The labels of the container are kept, unless others take their place. The container is not paused.
        """
        with _translated_errors("make an image", self.socket):
            made = self._api.commit(container, repository, tag, pause=False, conf={"Labels": dict(labels)})
        return str(made["Id"])

    def written_bytes(self, container: str) -> int:
        """The bytes that a container has written beside its mounts."""
        with _translated_errors("measure a container", self.socket):
            found = self._api.containers(all=True, size=True, filters={"id": container})
        # An engine omits the size of a container that has written nothing.
        return sum(int(each.get("SizeRw") or 0) for each in found)

    # Networks and volumes

    def networks(self) -> list[Json]:
        with _translated_errors("list networks", self.socket):
            return list(self._api.networks())

    def create_network(
        self, name: str, subnet: IPv4Network, options: Mapping[str, str], labels: Mapping[str, str]
    ) -> str:
        """Create an internal network, and return its id. Raises `EngineError`."""
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
        """Create a container, and return its id."""
        with _translated_errors("make a container", self.socket):
            try:
                made = self._api.create_container_from_config(dict(config), name)  # type: ignore[no-untyped-call]
                return str(made["Id"])
            except ImageNotFound:
                raise ImageMissingError(
                    f"the engine has no image {config.get('Image')}",
                    "pull or build it: images are never pulled automatically",
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
        """Send SIGTERM, and SIGKILL after `grace` seconds."""
        with _translated_errors("stop a container", self.socket), suppress(NotFound):
            self._api.stop(container, timeout=grace)

    def remove_container(self, container: str) -> None:
        """Kill and remove a container, with its anonymous volumes."""
        with _translated_errors("remove a container", self.socket), suppress(NotFound):
            try:
                self._api.remove_container(container, v=True, force=True)
            except APIError as error:
                # A removal is in progress already: wait for its end.
                if error.status_code != 409:
                    raise
                self._api.wait(container, timeout=_CALL_TIMEOUT, condition="removed")

    def put_archive(self, container: str, folder: str, archive: bytes) -> None:
        """Let the engine write files as root. Only for containers whose contents are our own."""
        with _translated_errors("write files", self.socket):
            self._api.put_archive(container, folder, archive)

    def inspect_container(self, container: str) -> Json:
        """Everything that the engine tells of a container. Raises `ContainerGoneError`."""
        with _translated_errors("look at a container", self.socket):
            found: Json = self._api.inspect_container(container)
            return found

    def container_state(self, container: str) -> ContainerState | None:
        """The state of a container; None if it does not exist."""
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
        """Containers with all of these labels, stopped ones too."""
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
        """Prepare a command, and return its id. Raises `ContainerGoneError` if the container is gone."""
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
        """The exit status of a command; None while it runs.

        Raises `ContainerGoneError` if its container is gone.
        """
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
        """Events of containers with these labels, as the engine sends them."""
        with _translated_errors("stream events", self.socket):
            stream = self._api.events(decode=True, filters={"type": ["container"], "label": list(labels)})
        try:
            yield stream
        finally:
            stream.close()


@contextmanager
def _translated_errors(what: str, socket: Path) -> Iterator[None]:
    """Turn errors of the SDK into errors of ours."""
    try:
        yield
    except SandboxError:
        raise
    # A missing container is an answer of its own: callers decide what the loss means.
    except NotFound as error:
        raise ContainerGoneError(
            f"the engine did not {what}: {_reason(error)}", "check whether it was removed"
        ) from None
    except APIError as error:
        raise EngineError(f"the engine did not {what}: {_reason(error)}", "see its log") from None
    except PermissionError:
        raise _permission_error(socket) from None
    except (DockerException, OSError) as error:
        if "Permission denied" in str(error):
            raise _permission_error(socket) from None
        raise EngineUnavailableError(
            f"the engine at {socket} did not answer ({type(error).__name__})",
            "check that it runs, and see its log",
        ) from None


def _permission_error(socket: Path) -> EngineUnavailableError:
    return EngineUnavailableError(f"this user may not open {socket}", "join the group that owns the socket")


def _reason(error: APIError) -> str:
    """The engine's reason as one short, printable line."""
    text = re.sub(r"\s+", " ", str(error.explanation or type(error).__name__))
    return "".join(letter for letter in text if letter.isprintable())[:_MAX_REASON_LENGTH]
