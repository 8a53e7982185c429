"""The logs of a gateway's replicas, copied out of their pods by a command that runs there."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Final, override
from urllib.parse import urlencode

import msgspec

from egress.audit.key import KEY_BYTES
from egress.audit.log_collection import LogCollection
from egress.audit.log_copy import read_parts
from egress.cluster.api_call import call
from egress.cluster.api_server import ClusterApi
from egress.cluster.authority_objects import AUDIT_KEY, AUTHORITY_NAME
from egress.cluster.pod_exec import PodExec, open_exec
from egress.cluster.secret_value import SecretReader
from egress.errors import ContentError, UnreadableError, WireError
from egress.private_file import read_or_create_private

GATEWAY_SELECTOR: Final = "app=egress-proxy"
GATEWAY_CONTAINER: Final = "proxy"
ARCHIVE_COMMAND: Final = ("egress", "log", "archive")
MAX_PODS: Final = 99
_MAX_COMPLAINT_BYTES: Final = 4096


class _Metadata(msgspec.Struct):
    name: str


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status


class _Pods(msgspec.Struct):
    items: tuple[_Pod, ...] = ()


class ReplicaLogs:
    """The logs of one gateway."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    def keep_key(self, path: Path) -> None:
        """Write the key of the logs into a private file, unless it is there. Raises `UnreadableError`."""
        secrets = SecretReader(self._api)
        read_or_create_private(
            path,
            lambda: secrets.value(AUTHORITY_NAME, AUDIT_KEY),
            KEY_BYTES + 1,
            "name another file with --key",
            is_named=True,
        )

    def take_all(self, collection: LogCollection) -> dict[str, int]:
        """Take what is new in the log of each replica; return the bytes by replica.

        A replica that does not run is left out, and taken when it runs again: its volume keeps its lines.
        Raises `UnreadableError` where no replica runs, and `ContentError` for a copy that fails.
        """
        pods = self._running_pods()
        if not pods:
            raise UnreadableError(
                f"no pod of a gateway runs in the namespace {self._api.namespace}",
                "name its namespace with -n",
            )
        return {pod: self._take(pod, collection) for pod in pods}

    def _running_pods(self) -> list[str]:
        query = urlencode({"labelSelector": GATEWAY_SELECTOR, "limit": MAX_PODS})
        answer = call(self._api, "GET", f"{self._api.namespaced('pods')}?{query}")
        try:
            pods = msgspec.convert(answer, _Pods).items
        except msgspec.ValidationError:
            raise ContentError(
                "the API server lists pods in a form that is none", "check its address"
            ) from None
        return sorted(pod.metadata.name for pod in pods if pod.status.phase == "Running")

    def _take(self, pod: str, collection: LogCollection) -> int:
        command = open_exec(
            self._api, pod, GATEWAY_CONTAINER, ARCHIVE_COMMAND, has_input=True, has_terminal=False
        )
        try:
            command.write(json.dumps(collection.known(pod)).encode("ascii"))
            command.close_input()
            output = _Output(command)
            try:
                taken = collection.take(pod, read_parts(io.BufferedReader(output)))
            except WireError as error:
                raise ContentError(
                    f"the log of {pod} cannot be copied: {output.complaint or error.message}",
                    "look at the log of that pod; the gateway has to be of this version",
                ) from None
        finally:
            command.abort()
            command.close()
        return taken


class _Output(io.RawIOBase):
    """The output of a command as a file; what it complains of is kept beside it."""

    def __init__(self, command: PodExec) -> None:
        self._command = command
        self._rest = memoryview(b"")
        self._complaint = bytearray()

    @property
    def complaint(self) -> str:
        """The first line of the command's errors, in printable characters."""
        line = bytes(self._complaint).partition(b"\n")[0].decode("utf-8", "replace")
        return "".join(each for each in line if each.isprintable())

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = self._command.read()
            if piece is None:
                return 0
            name, data = piece
            if name == "stdout":
                self._rest = memoryview(data)
            else:
                self._complaint += data[: _MAX_COMPLAINT_BYTES - len(self._complaint)]
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
