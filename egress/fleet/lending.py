"""Folders that would hand a sandbox its own rules, or a secret, are not mounted in it, whoever asks.

The proxy reads its rules again whenever they change. A sandbox that can write the file decides where it may
go, and which file of this machine is sent there as a credential; so what it may write holds neither a file of
rules nor a program that the proxy gets a secret from. Nor does it reach the user's own configuration, whether
or not there is any: the next proxy would take what is there for rules that its user wrote. A file that is a
secret is not even read.

It is the end of a path that counts, and the place of each link on the way as well. The rules may change at
any time, so the proxy is asked each time there is something to look at. Where it does not say which they are,
nothing is mounted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from egress import settings
from egress.errors import EgressError
from egress.fleet import asking
from egress.fleet.asking import Answer
from egress.policy.files import load_policy
from egress.rules.policy import Policy
from egress.runtime.errors import GatewayError, MountError
from egress.runtime.spec import Mount, Spec

Status = Callable[[], Answer]
_MOST_LINKS: Final = 40


class Lending:
    """What the sandboxes of one proxy may see of this machine, as its rules have it."""

    def __init__(self, status: Status, folder: Path, home: str, config: Path | None = None) -> None:
        """`status` asks the proxy what it says of itself; `folder` is the one it works in, `home` its user's.

        `config` is where that user's own rules are looked for. Nobody is asked yet.
        """
        self._status = status
        self._folder = folder
        self._home = home
        self._config = config

    @classmethod
    def by(cls, sockets: Path, environ: Mapping[str, str]) -> Lending:
        """Those of a proxy that was started here, with its sockets in this folder."""
        config = settings.config_dir(environ)
        return cls(lambda: asking.ask(sockets, "/status"), Path.cwd(), environ.get("HOME", ""), config)

    def refuse(self, spec: Spec) -> None:
        """Raise `MountError` where it would see what it must not, `GatewayError` where nobody can tell."""
        image = [Mount(source=Path(spec.image), target="/image")] if spec.image.startswith("/") else []
        lent = [*spec.mounts, *image]
        if not lent:
            return
        files = self._files()
        policy = self._policy(files)
        for mount in lent:
            _check(mount, self._secrets(policy), "is a secret of the rules")
            if mount.writable:
                self._check_config(mount)
                _check(mount, files, "says what the sandbox may do")
                _check(mount, self._programs(policy), "is run by the proxy")

    def _check_config(self, mount: Mount) -> None:
        config = self._config
        if config is None:
            return
        _check(mount, [config], "is where your own rules are looked for")
        if mount.source.resolve().is_relative_to(config.resolve()):
            raise MountError(
                f"{mount.source} cannot be mounted for writing: it lies in {config}, with your own rules",
                "keep what a sandbox writes elsewhere",
            )

    def _files(self) -> list[Path]:
        answer = self._status()
        rules = answer.said.get("rules")
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

    def _programs(self, policy: Policy) -> Iterator[Path]:
        for each in policy.secrets.values():
            if each.scheme == "command":
                # Any of its words can be a file that is run.
                yield from (path for word in each.reference if (path := self._folder / word).is_file())


def _check(mount: Mount, closed: Iterable[Path], why: str) -> None:
    source = mount.source.resolve()
    for path in closed:
        if any(place.is_relative_to(source) for place in _places(path)):
            how = " for writing" if mount.writable else ""
            raise MountError(
                f"{mount.source} cannot be mounted{how}: {path} in it {why}",
                "keep that outside of the folder, and name it with --rules or in the rules; or mount less",
            )


def _places(path: Path) -> Iterator[Path]:
    """Where a path ends, and where each link lies on the way there: whoever writes one decides as well."""
    at = Path("/")
    left = _reversed(path)
    links = _MOST_LINKS
    while left:
        part = left.pop()
        place = at.parent if part == ".." else at / part
        if not links or not place.is_symlink():
            at = place
            continue
        yield place
        links -= 1
        to = place.readlink()
        at = Path("/") if to.is_absolute() else at
        left += _reversed(to)
    yield at


def _reversed(path: Path) -> list[str]:
    return [part for part in reversed(path.parts) if part != path.root]
