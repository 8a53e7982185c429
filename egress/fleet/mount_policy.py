"""Folders that would hand a sandbox its own rules, or a secret, are not mounted in it, whoever asks.

The proxy reads its rules again whenever they change. A sandbox that can write the file decides where it may
go, and which file of this machine is sent there as a credential; so what it may write holds neither a file of
rules nor a program that the proxy gets a secret from. Nor does it reach the user's own configuration, whether
or not there is any: the next proxy would take what is there for rules that its user wrote. A file that is a
secret is not even read.

Nor does it write what its user runs outside of it: Egress itself, and, where a program gives a secret, the
folders of `PATH`. That program is looked for there, whether or not it is found in them by now, and so is what
it runs in turn.

It is the end of a path that counts, and the place of each link on the way as well. The rules may change at
any time, so the proxy is asked each time there is something to look at. Where it does not say which they are,
nothing is mounted.
"""

from __future__ import annotations

import shutil
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

import egress
from egress import environment
from egress.errors import EgressError
from egress.fleet import control_client
from egress.policy.rule_files import load_policy
from egress.rules.decide.policy import Policy
from egress.runtime import safe_path
from egress.runtime.errors import GatewayError, MountError
from egress.runtime.spec import Mount, Spec
from egress.secrets import ProgramLookup
from egress.unix.http_connection import JsonAnswer

StatusCall = Callable[[], JsonAnswer]
_MOUNT_LESS_HINT: Final = (
    "keep that outside of the folder, and name it with --rules or in the rules; or mount less"
)
_OWN_CODE_HINT: Final = (
    "mount it read-only, or only a folder in it that has no part of that; or install Egress elsewhere,"
    " and leave PYTHONPATH unset"
)
_SEARCHED_HINT: Final = (
    "mount it read-only, or mount less; or start Egress with a PATH that does not lead there,"
    " as after `deactivate`"
)


class MountPolicy:
    """What the sandboxes of one proxy may see of this machine, as its rules have it."""

    def __init__(
        self,
        status: StatusCall,
        folder: Path,
        environ: Mapping[str, str],
        config: Path | None = None,
        code: Iterable[Path] = (),
    ) -> None:
        """`status` asks the proxy what it says of itself; `folder` is the one it works in.

        `environ` is what it was started with. `config` is where its user's own rules are looked for, and
        `code` where Egress's own code is. Nobody is asked yet.
        """
        self._status = status
        self._folder = folder
        self._home = environ.get("HOME", "")
        self._commands = ProgramLookup.of_environ(environ)
        self._config = config
        self._code = tuple(code)

    @classmethod
    def for_proxy(cls, sockets: Path, environ: Mapping[str, str]) -> MountPolicy:
        """Those of a proxy that was started here, with its sockets in this folder."""
        config = environment.config_dir(environ)
        code = own_code_paths(environ)
        return cls(lambda: control_client.ask(sockets, "/status"), Path.cwd(), environ, config, code)

    def check(self, spec: Spec) -> None:
        """Raise `MountError` where it would see what it must not, `GatewayError` where nobody can tell."""
        image = [Mount(source=Path(spec.image), target="/image")] if spec.image.startswith("/") else []
        lent = [*spec.mounts, *image]
        if not lent:
            return
        for mount in lent:
            if mount.writable:
                _check_around(
                    mount, self._code, "is code that Egress runs, outside of the sandbox", _OWN_CODE_HINT
                )
        files = self._files()
        policy = self._policy(files)
        for mount in lent:
            _check_closed(mount, self._secrets(policy), "is a secret of the rules")
            if mount.writable:
                self._check_config(mount)
                _check_closed(mount, files, "says what the sandbox may do")
                self._check_programs(mount, policy)

    def _check_config(self, mount: Mount) -> None:
        config = self._config
        if config is None:
            return
        _check_closed(mount, [config], "is where your own rules are looked for")
        if mount.source.resolve().is_relative_to(config.resolve()):
            raise MountError(
                f"{mount.source} cannot be mounted for writing: it lies in {config}, with your own rules",
                "keep what a sandbox writes elsewhere",
            )

    def _files(self) -> list[Path]:
        answer = self._status()
        rules = answer.body.get("rules")
        files = rules.get("files") if isinstance(rules, dict) else None
        if answer.status != HTTPStatus.OK or not isinstance(files, list) or not files:
            raise GatewayError("the proxy does not say which rules it has", "bring it to this version")
        return [self._folder / str(each) for each in files]

    def _policy(self, files: list[Path]) -> Policy:
        try:
            found = load_policy(files).policy
        except EgressError:
            found = None
        if found is None:
            raise MountError(
                "nothing is mounted while the rules cannot be read", "put them right: see `egress check`"
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
        _check_around(mount, search, "is searched for what gives a secret to the proxy", _SEARCHED_HINT)
        words = [word for command in commands for word in command]
        # What a word names as a whole path counts also where there is nothing yet.
        whole = [Path(place) for word in words if (place := self._commands.expand_home(word)).startswith("/")]
        _check_closed(mount, whole, "is run by the proxy")
        home = Path(self._commands.home)
        folders = [path for path in whole if path.is_dir() and not home.is_relative_to(path)]
        _check_around(mount, folders, "is run by the proxy", _MOUNT_LESS_HINT)
        found = [Path(path) for command in commands if command and (path := self._commands.find(command[0]))]
        # Any of the words can be a file that is run; they are read in the home of the user.
        found += [at for word in words if (at := home / word).is_file() or at.is_symlink()]
        _check_closed(mount, found, "is run by the proxy")


def _check_closed(mount: Mount, closed: Iterable[Path], why: str) -> None:
    source = mount.source.resolve()
    for path in closed:
        if any(place.is_relative_to(source) for place in safe_path.places_on_path(path)):
            how = " for writing" if mount.writable else ""
            raise MountError(
                f"{mount.source} cannot be mounted{how}: {path} in it {why}",
                _MOUNT_LESS_HINT,
            )


def _check_around(mount: Mount, closed: Iterable[Path], why: str, cure: str) -> None:
    """As `_check` does, and nothing in such a folder either."""
    source = mount.source.resolve()
    for path in closed:
        places = safe_path.places_on_path(path)
        if any(place.is_relative_to(source) for place in places):
            where = "in it" if path.is_relative_to(source) else "leads there, and"
            raise MountError(f"{mount.source} cannot be mounted for writing: {path} {where} {why}", cure)
        if source.is_relative_to(places[-1]):
            raise MountError(f"{mount.source} cannot be mounted for writing: {path}, above it, {why}", cure)


# Where Egress's own code is: what can be written there is run by its user, outside of every sandbox.
#
# That is the package, the Python that runs it with everything it imports from, and the program `egress`.
# Folders of `PYTHONPATH` count as well, whatever lies in them: modules are looked for there at first.
_IMPORT_PATHS: Final = ("stdlib", "platstdlib", "purelib", "platlib")


def own_code_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files and folders, each once; some may not be there."""
    return tuple(dict.fromkeys(Path(place).absolute() for place in _own_places(environ)))


def _own_places(environ: Mapping[str, str]) -> Iterator[str | Path]:
    yield Path(egress.__file__).parent
    if sys.prefix != sys.base_prefix:
        # An environment of its own; a prefix such as /usr holds much that is none of ours.
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
        # An empty entry is the working folder.
        yield from listed.split(":")
