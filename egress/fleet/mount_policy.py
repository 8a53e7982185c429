"""Refuses mounts that would hand a sandbox its own rules, a secret, or code that runs outside of it.

The proxy reloads its rules whenever they change. A sandbox that can write the file of rules decides where it
may connect, and which file of this machine is sent there as a credential. So a writable mount holds neither a
file of rules nor a program that gives the proxy a secret. Nor does it hold the user's own configuration,
whether that exists or not: the next proxy would load whatever lies there. A file that is a secret is not
mounted even read-only.

Code that runs outside of the sandbox must not be writable from inside: Egress itself, and, if a program gives
a secret, the folders of `PATH`. The program is searched for there, whether it lies there now or not, and so
are the programs that it runs in turn.

Paths are judged by where they end, and by the place of each link on the way. The rules may change at any
time, so the proxy is asked before each check. If the proxy does not list its rules, nothing is mounted.
"""

from __future__ import annotations

import shutil
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import egress
from egress import environment
from egress.errors import EgressError
from egress.fleet import control_client
from egress.runtime import safe_path
from egress.runtime.errors import GatewayError, MountError
from egress.runtime.spec import Mount, Spec
from egress.secrets.program_lookup import ProgramLookup
from egress.unix.http_connection import JsonAnswer

if TYPE_CHECKING:
    from egress.rules.decide.policy import Policy

StatusCall = Callable[[], JsonAnswer]
_MOUNT_LESS_HINT: Final = (
    "keep that file outside of the folder, and update --rules or the rules; or mount less"
)
_OWN_CODE_HINT: Final = (
    "mount it read-only, or mount a subfolder without that code; or install Egress elsewhere"
    " and unset PYTHONPATH"
)
_SEARCHED_HINT: Final = (
    "mount it read-only, or mount a smaller folder; or start Egress with a PATH without that folder,"
    " for example after `deactivate`"
)


class MountPolicy:
    """Decides which mounts the sandboxes of one proxy may have."""

    def __init__(
        self,
        status: StatusCall,
        folder: Path,
        environ: Mapping[str, str],
        config: Path | None = None,
        code: Iterable[Path] = (),
        roots: Iterable[Path] = (),
    ) -> None:
        """`status` asks the proxy for its status; `folder` is the proxy's working directory.

        `environ` is the environment that the proxy was started with. `config` is the folder of its user's own
        rules, and `code` lists the paths of Egress's own code. `roots` are the files of certificates that the
        proxy trusts. Nothing is asked yet.
        """
        self._status = status
        self._folder = folder
        self._home = environ.get("HOME", "")
        self._commands = ProgramLookup.of_environ(environ)
        self._config = config
        self._code = tuple(code)
        self._roots = tuple(folder / path for path in roots)

    @classmethod
    def for_proxy(cls, sockets: Path, environ: Mapping[str, str], roots: Iterable[Path] = ()) -> MountPolicy:
        """The policy of a proxy that this process started, with its sockets in this folder."""
        config = environment.config_dir(environ)
        code = own_code_paths(environ)
        return cls(lambda: control_client.ask(sockets, "/status"), Path.cwd(), environ, config, code, roots)

    def check(self, spec: Spec) -> None:
        """Raise `MountError` for a mount that is refused, and `GatewayError` if the proxy cannot say."""
        image = [Mount(source=Path(spec.image), target="/image")] if spec.image.startswith("/") else []
        requested = [*spec.mounts, *image]
        if not requested:
            return
        # Egress's own code needs no proxy to be known, so it is checked before the proxy is asked.
        for mount in requested:
            if mount.writable:
                _check_around(
                    mount, self._code, "is code that Egress runs outside of the sandbox", _OWN_CODE_HINT
                )
        files = self._files()
        policy = self._policy(files)
        for mount in requested:
            # Read-only mounts are checked for secrets too: reading a secret is enough to leak it.
            _check_closed(mount, self._secrets(policy), "is a secret of the rules")
            if mount.writable:
                self._check_config(mount)
                _check_closed(mount, files, "holds the rules of the sandbox")
                # The next proxy would trust whatever certificate the sandbox has put there.
                _check_closed(mount, self._roots, "holds certificates that the proxy trusts")
                self._check_programs(mount, policy)

    def _check_config(self, mount: Mount) -> None:
        config = self._config
        if config is None:
            return
        _check_closed(mount, [config], "is the folder of your own rules")
        if mount.source.resolve().is_relative_to(config.resolve()):
            raise MountError(
                f"{mount.source} cannot be mounted writable: it lies in your own rules' folder {config}",
                "mount a folder elsewhere for a sandbox to write",
            )

    def _files(self) -> list[Path]:
        answer = self._status()
        rules = answer.body.get("rules")
        files = rules.get("files") if isinstance(rules, dict) else None
        if answer.status != HTTPStatus.OK or not isinstance(files, list) or not files:
            raise GatewayError(
                "the proxy did not list its rule files", "run proxy and caller in the same version of egress"
            )
        return [self._folder / str(each) for each in files]

    def _policy(self, files: list[Path]) -> Policy:
        from egress.policy.rule_files import load_policy  # noqa: PLC0415 - only for sandboxes with mounts

        try:
            found = load_policy(files).policy
        except EgressError:
            found = None
        if found is None:
            raise MountError(
                "no folder is mounted while the rules have errors", "fix them: `egress check` lists them"
            )
        return found

    def _secrets(self, policy: Policy) -> Iterator[Path]:
        for each in policy.secrets.values():
            if each.scheme == "file" and each.reference:
                path = each.reference[0]
                yield self._folder / (f"{self._home}/{path[2:]}" if path.startswith("~/") else path)

    def _check_programs(self, mount: Mount, policy: Policy) -> None:
        commands = [each.reference for each in policy.secrets.values() if each.scheme == "command"]
        if not commands:
            return
        search = [Path(folder) for folder in self._commands.folders]
        _check_around(
            mount, search, "is on PATH, where the proxy finds programs that give it secrets", _SEARCHED_HINT
        )
        words = [word for command in commands for word in command]
        # An absolute path counts even if no file is there yet: the sandbox could create it.
        whole = [Path(place) for word in words if (place := self._commands.expand_home(word)).startswith("/")]
        _check_closed(mount, whole, "is run by the proxy")
        home = Path(self._commands.home)
        folders = [path for path in whole if path.is_dir() and not home.is_relative_to(path)]
        _check_around(mount, folders, "is run by the proxy", _MOUNT_LESS_HINT)
        found = [Path(path) for command in commands if command and (path := self._commands.find(command[0]))]
        # Any word may be a script; relative words are resolved in the home of the user.
        found += [at for word in words if (at := home / word).is_file() or at.is_symlink()]
        _check_closed(mount, found, "is run by the proxy")


def _check_closed(mount: Mount, closed: Iterable[Path], why: str) -> None:
    source = mount.source.resolve()
    for path in closed:
        if any(place.is_relative_to(source) for place in safe_path.places_on_path(path)):
            how = " writable" if mount.writable else ""
            raise MountError(
                f"{mount.source} cannot be mounted{how}: {path} in it {why}",
                _MOUNT_LESS_HINT,
            )


def _check_around(mount: Mount, closed: Iterable[Path], why: str, cure: str) -> None:
    """Refuse like `_check_closed`, and also mounts of anything inside such a folder."""
    source = mount.source.resolve()
    for path in closed:
        places = safe_path.places_on_path(path)
        if any(place.is_relative_to(source) for place in places):
            where = "in it" if path.is_relative_to(source) else "leads into it and"
            raise MountError(f"{mount.source} cannot be mounted writable: {path} {where} {why}", cure)
        if source.is_relative_to(places[-1]):
            raise MountError(f"{mount.source} cannot be mounted writable: {path} above it {why}", cure)


# Egress's own code is the package, the Python that runs it with its import path, and the program `egress`.
# Folders of `PYTHONPATH` count whatever lies in them: modules there are found first.
_IMPORT_PATHS: Final = ("stdlib", "platstdlib", "purelib", "platlib")


def own_code_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The paths of Egress's own code, each once; some may not exist."""
    return tuple(dict.fromkeys(Path(place).absolute() for place in _own_places(environ)))


def _own_places(environ: Mapping[str, str]) -> Iterator[str | Path]:
    yield Path(egress.__file__).parent
    if sys.prefix != sys.base_prefix:
        # A virtual environment only: a prefix such as /usr holds much besides Egress.
        yield sys.prefix
    yield sys.executable
    yield from (path for name, path in sysconfig.get_paths().items() if name in _IMPORT_PATHS)
    yield from site.getsitepackages()
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()
    libraries, library = (sysconfig.get_config_var(name) for name in ("LIBDIR", "LDLIBRARY"))
    if libraries and library:
        yield Path(libraries, library)
    program = shutil.which("egress", path=environ.get("PATH", ""))
    if program:
        yield program
    if listed := environ.get("PYTHONPATH"):
        # An empty entry means the working directory.
        yield from listed.split(":")
