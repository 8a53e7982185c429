"""The runtime in memory: sandboxes by name, and all operations on them."""

from __future__ import annotations

import io
import socket
import tarfile
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import BinaryIO, Final

from egress.runtime import canary_planting
from egress.runtime.errors import (
    ImageMissingError,
    PathNotFoundError,
    PortClosedError,
    SandboxStateError,
)
from egress.runtime.fake.memory_files import MemoryFiles
from egress.runtime.fake.process import FakeProcess, FakeSandbox, Program
from egress.runtime.fake.programs import PLAIN_PROGRAMS, program_not_found
from egress.runtime.fake.proxy_client import FakeProxyClient
from egress.runtime.lifecycle import Lifecycle, Status, refuse_rights, unfit
from egress.runtime.protocol import NO_OUTPUT, Output, Provisioner, provision_minimal
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, ProxyClient, SandboxListener
from egress.runtime.spec import (
    Command,
    EventKind,
    ExecResult,
    Info,
    Spec,
    State,
    check_path,
    check_ports,
    check_ready_count,
)
from egress.runtime.tar_filter import filter_archive

_PROXY_ADDRESS: Final = ProxyAddress("198.18.0.2")


class FakeRuntime(Lifecycle[FakeSandbox]):
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
        super().__init__(self.proxy, provision)
        self._programs = {**PLAIN_PROGRAMS, **(programs or {})}
        self._images = images

    def files(self, name: str) -> MemoryFiles:
        """The files of a sandbox, for tests to read and write."""
        return self._register.get(name).files

    # Lifecycle

    def _maker(self, spec: Spec) -> Callable[[], FakeSandbox]:
        self._check_image(spec.image)

        def make(admission: Admission) -> FakeSandbox:
            return FakeSandbox(
                spec,
                canary_planting.provision_with_canaries(self._provisioner, admission, _PROXY_ADDRESS, spec),
                admission,
            )

        return lambda: self._admitted(spec, make)

    def _renewed(self, sandbox: FakeSandbox, admission: Admission) -> tuple[SandboxListener, ...]:
        sandbox.provisions = canary_planting.provision_with_canaries(
            self._provisioner, admission, _PROXY_ADDRESS, sandbox.spec
        )
        return ()

    def start(self, name: str) -> Info:
        box = self._register.get(name)
        if box.state in ("created", "stopped"):
            box.become("running")
            self._tell("started", name)
        return self.info(name)

    def stop(self, name: str) -> None:
        box = self._register.get(name)
        if box.state in ("running", "paused"):
            box.become("stopped")
            box.end_all()
            box.lose()
            self._tell("died", name)

    def _end(self, sandbox: FakeSandbox) -> None:
        was_alive = sandbox.state in ("running", "paused")
        sandbox.become("stopped")
        sandbox.end_all()
        if was_alive:
            self._tell("died", sandbox.spec.name)

    def pause(self, name: str) -> None:
        self._switch(name, "running", "paused", "paused")

    def resume(self, name: str) -> None:
        self._switch(name, "paused", "running", "resumed")

    def _switch(self, name: str, before: State, after: State, kind: EventKind) -> None:
        box = self._register.get(name)
        if box.state == after:
            return
        if box.state != before:
            raise unfit(name, box.state)
        box.become(after)
        self._tell(kind, name)

    def open_ports(self, name: str, ports: tuple[int, ...]) -> None:
        check_ports(ports)
        self._register.get(name)

    def listen(self, name: str, port: int, serve: Callable[[socket.socket], object]) -> None:
        """Let a test listen in a sandbox: `serve` gets each connection, in a thread."""
        check_ports((port,))
        self._register.get(name).ports[port] = serve

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
        refuse_rights(command)
        box = self._running(name)
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
        box = self._register.get(name)
        if box.state != "running":
            raise unfit(name, box.state)
        return box

    # State

    def _status(self, sandbox: FakeSandbox) -> Status:
        return Status(sandbox.state, exit_code=137 if sandbox.state == "stopped" else None)

    def _check_image(self, image: str) -> None:
        if self._images is not None and image not in self._images:
            raise ImageMissingError(
                f"the engine has no image {image}", "pull or build it: images are never pulled automatically"
            )


def _serve(serve: Callable[[socket.socket], object], sock: socket.socket) -> None:
    with sock:
        serve(sock)


def _write(files: MemoryFiles, name: str, target: str, data: bytes) -> None:
    try:
        files.write(target, data)
    except OSError:
        folder = PurePosixPath(target).parent
        raise SandboxStateError(
            f"the archive was not completely unpacked in {folder} of the sandbox {name}",
            "free space on its disk",
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
