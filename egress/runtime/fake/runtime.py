"""The runtime in memory: sandboxes by name, and all operations on them."""

from __future__ import annotations

import io
import queue
import socket
import tarfile
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import BinaryIO, Final

from egress.runtime import canary_planting
from egress.runtime.errors import (
    ImageMissingError,
    PathNotFoundError,
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
)
from egress.runtime.fake.memory_files import MemoryFiles
from egress.runtime.fake.process import FakeProcess, FakeSandbox, Program
from egress.runtime.fake.programs import PLAIN_PROGRAMS, program_not_found
from egress.runtime.fake.proxy_client import FakeProxyClient
from egress.runtime.protocol import NO_OUTPUT, Output, Provisioner, provision_minimal
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import ProxyClient
from egress.runtime.spec import (
    NO_VALUES,
    Command,
    Event,
    EventKind,
    ExecResult,
    Info,
    Spec,
    State,
    Values,
    check_path,
    check_ports,
    check_ready_count,
)
from egress.runtime.tar_filter import filter_archive

_PROXY_ADDRESS: Final = ProxyAddress("198.18.0.2")


class FakeRuntime:
    """A `Runtime` in memory."""

    def __init__(
        self,
        proxy: ProxyClient | None = None,
        programs: Mapping[str, Program] | None = None,
        *,
        images: Container[str] | None = None,
        provision: Provisioner = provision_minimal,
    ) -> None:
        """`programs` extend a few plain ones; without `images` every image exists."""
        self.proxy = proxy or FakeProxyClient()
        self._programs = {**PLAIN_PROGRAMS, **(programs or {})}
        self._images = images
        self._provisioner = provision
        self._boxes: dict[str, FakeSandbox] = {}
        self._listeners: set[queue.SimpleQueue[Event | None]] = set()
        self._lock = threading.RLock()

    def files(self, name: str) -> MemoryFiles:
        """The files of a sandbox, for tests to read and write."""
        return self._sandbox(name).files

    # Lifecycle

    def create(self, spec: Spec) -> Info:
        self._check_image(spec.image)
        with self._lock:
            if spec.name in self._boxes:
                raise SandboxExistsError(
                    f"the sandbox {spec.name} exists already", "remove it first, or choose another name"
                )
            admission = self.proxy.admit(spec.name, spec.profile)
            try:
                provisions = canary_planting.provision_with_canaries(
                    self._provisioner, admission, _PROXY_ADDRESS, spec
                )
                self._boxes[spec.name] = FakeSandbox(spec, provisions)
            except BaseException:
                self.proxy.dismiss(spec.name)
                raise
        self._tell("created", spec.name)
        return self.info(spec.name)

    def start(self, name: str) -> Info:
        box = self._sandbox(name)
        if box.state in ("created", "stopped"):
            box.become("running")
            self._tell("started", name)
        return self.info(name)

    def stop(self, name: str) -> None:
        box = self._sandbox(name)
        if box.state in ("running", "paused"):
            box.become("stopped")
            box.end_all()
            box.lose()
            self._tell("died", name)

    def remove(self, name: str) -> None:
        with self._lock:
            box = self._boxes.pop(name, None)
        if box is None:
            return
        was_alive = box.state in ("running", "paused")
        box.become("stopped")
        box.end_all()
        self.proxy.dismiss(name)
        if was_alive:
            self._tell("died", name)
        self._tell("removed", name)

    def pause(self, name: str) -> None:
        self._switch(name, "running", "paused", "paused")

    def resume(self, name: str) -> None:
        self._switch(name, "paused", "running", "resumed")

    def close(self) -> None:
        for name in list(self._boxes):
            self.remove(name)
        for listener in list(self._listeners):
            listener.put(None)

    def _switch(self, name: str, before: State, after: State, kind: EventKind) -> None:
        box = self._sandbox(name)
        if box.state == after:
            return
        if box.state != before:
            raise _state_error(name, box.state)
        box.become(after)
        self._tell(kind, name)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        self._sandbox(name)

    def listen(self, name: str, port: int, serve: Callable[[socket.socket], object]) -> None:
        """Let a test listen in a sandbox: `serve` gets each connection, in a thread."""
        check_ports((port,))
        self._sandbox(name).ports[port] = serve

    def dial(self, name: str, port: int) -> socket.socket:
        check_ports((port,))
        serve = self._running(name).ports.get(port)
        if serve is None:
            raise PortClosedError(
                f"no program listens on port {port} of the sandbox",
                "start the program first, and let it listen on 0.0.0.0, not on 127.0.0.1",
            )
        ours, theirs = socket.socketpair()
        threading.Thread(target=_serve, args=(serve, theirs), daemon=True).start()
        return ours

    def prepare(self, spec: Spec, count: int) -> None:
        check_ready_count(count)
        self._check_image(spec.image)

    # Commands

    def spawn(self, name: str, command: Command, output: Output = NO_OUTPUT) -> FakeProcess:
        process = self._begin(name, command, output)
        if command.input is not None:
            _feed(process, command.input)
        return process

    def exec(self, name: str, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        process = self._begin(name, command, output)
        _feed(process, command.input or b"")
        return process.wait()

    def _begin(self, name: str, command: Command, output: Output) -> FakeProcess:
        box = self._sandbox(name)
        if box.state != "running":
            raise _state_error(name, box.state)
        cwd = command.cwd or box.spec.workdir
        if not box.files.is_folder(cwd):
            raise PathNotFoundError(
                f"no folder {cwd} in the sandbox {name}", "create it first, or choose another cwd"
            )
        program = self._programs.get(command.argv[0], program_not_found)
        return FakeProcess(box, command, output, program)

    # Files

    def put(self, name: str, path: str, archive: BinaryIO) -> None:
        check_path("path", path)
        files = self._running(name).files
        if not files.is_folder(path):
            raise PathNotFoundError(f"no folder {path} in the sandbox {name}", "create it first")
        clean = io.BytesIO()
        filter_archive(archive, clean)
        clean.seek(0)
        with tarfile.open(fileobj=clean) as tar:
            for entry in tar:
                target = normpath(join(path, entry.name))
                if entry.isdir():
                    files.make_folder(target)
                elif data := tar.extractfile(entry) if not entry.issym() else None:
                    _write(files, name, target, data.read())

    @contextmanager
    def get(self, name: str, path: str) -> Iterator[BinaryIO]:
        check_path("path", path)
        files = self._running(name).files
        path = normpath(path)
        if path not in files:
            raise PathNotFoundError(f"no {path} in the sandbox {name}", "list the folder above it")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            if files.is_folder(path):
                _add_folder(tar, files, path)
            else:
                _add_file(tar, PurePosixPath(path).name, files.read(path))
        out.seek(0)
        yield out

    def _running(self, name: str) -> FakeSandbox:
        box = self._sandbox(name)
        if box.state != "running":
            raise _state_error(name, box.state)
        return box

    # State

    def info(self, name: str) -> Info:
        box = self._sandbox(name)
        return Info(
            name=name,
            image=box.spec.image,
            state=box.state,
            profile=box.spec.profile,
            labels=box.spec.labels,
            exit_code=137 if box.state == "stopped" else None,
        )

    def list(self, labels: Values = NO_VALUES) -> tuple[Info, ...]:
        found = []
        for name, box in sorted(self._boxes.items()):
            if labels.items() <= box.spec.labels.items():
                with suppress(SandboxNotFoundError):
                    found.append(self.info(name))
        return tuple(found)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        listener: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._listeners.add(listener)
        try:
            yield iter(listener.get, None)
        finally:
            self._listeners.discard(listener)

    def _check_image(self, image: str) -> None:
        if self._images is not None and image not in self._images:
            raise ImageMissingError(
                f"the engine has no image {image}", "pull or build it: images are never pulled automatically"
            )

    def _tell(self, kind: EventKind, name: str) -> None:
        for listener in list(self._listeners):
            listener.put(Event(kind, name))

    def _sandbox(self, name: str) -> FakeSandbox:
        box = self._boxes.get(name)
        if box is None:
            raise SandboxNotFoundError(f"no sandbox is named {name}", "create it first")
        return box


def _serve(serve: Callable[[socket.socket], object], sock: socket.socket) -> None:
    with sock:
        serve(sock)


def _write(files: MemoryFiles, name: str, target: str, data: bytes) -> None:
    try:
        files.write(target, data)
    except OSError:
        folder = PurePosixPath(target).parent
        raise SandboxStateError(
            f"not all of the archive could be laid down in {folder} of the sandbox {name}",
            "see whether there is room",
        ) from None


def _feed(process: FakeProcess, source: bytes | BinaryIO) -> None:
    process.write(source if isinstance(source, bytes) else source.read())
    process.close_input()


def _add_folder(tar: tarfile.TarFile, files: MemoryFiles, path: str) -> None:
    for each in ("", *files.below(path)):
        name = each.removeprefix(path.rstrip("/") + "/") or "."
        if not each or files.is_folder(each):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        else:
            _add_file(tar, name, files.read(each))


def _add_file(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _state_error(name: str, state: str) -> SandboxError:
    if state == "stopped":
        return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
    cure = "resume it" if state == "paused" else "start it"
    return SandboxStateError(f"the sandbox {name} is {state}", cure)
