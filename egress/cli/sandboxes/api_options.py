"""Options of `egress up` for the API over TCP."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress.cli.folder_options import FILE
from egress.errors import UsageError
from egress.policy.state_dir_ownership import make_state_dir

if TYPE_CHECKING:
    from egress.api_server.tcp_server import ApiPort, ApiPortSettings

type Command = Callable[..., int]

TOKEN_FILE: Final = "api.token"
"""In the state folder."""


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """The options as typed."""

    api_listen: str | None = None
    api_token_file: Path | None = None
    api_name: tuple[str, ...] = ()
    api_tls_cert: Path | None = None
    api_tls_key: Path | None = None
    api_pools: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """All of these options, for another process with this working folder."""
        return tuple(self._words())

    def settings(self, state: Path, token_file: str = TOKEN_FILE) -> ApiPortSettings | None:
        """Return the settings of the port, None if none is wanted. Raises `UsageError`.

        `token_file` is the name of the token's file in the state folder, unless another one was named.
        """
        if self.api_listen is None:
            for flag in self._words():
                raise UsageError(
                    f"{flag.partition('=')[0]} has no effect without --api-listen", "name an address there"
                )
            return None
        # Loaded here, since most fleets have no port.
        from egress.api_server.sandbox_pools import read_pools
        from egress.api_server.tcp_server import ApiPortSettings
        from egress.cli.sandboxes.listen_address import read_listen_address

        found = ApiPortSettings(
            at=read_listen_address("--api-listen", self.api_listen),
            token_file=self.api_token_file or state / token_file,
            is_token_named=self.api_token_file is not None,
            names=self.api_name,
            certificate=self.api_tls_cert,
            key=self.api_tls_key,
            pools={} if self.api_pools is None else read_pools(self.api_pools),
        )
        found.check()
        return found

    def _words(self) -> Iterator[str]:
        for flag, value in (
            ("--api-listen", self.api_listen),
            ("--api-token-file", self.api_token_file),
            ("--api-tls-cert", self.api_tls_cert),
            ("--api-tls-key", self.api_tls_key),
            ("--api-pools", self.api_pools),
        ):
            if value:
                yield f"{flag}={value}"
        yield from (f"--api-name={name}" for name in self.api_name)


def open_port(settings: ApiPortSettings) -> ApiPort:
    """Listen at the port. Raises the errors of `ApiPort`."""
    # Loaded here, since its addresses are values of the settings of a proxy, which few commands need.
    from egress.api_server.tcp_server import ApiPort

    if not settings.is_token_named:
        make_state_dir(settings.token_file.parent)
    return ApiPort(settings)


def add_options(command: Command) -> Command:
    """Add the options of `egress up`; the command gets them as `api`."""
    port = add_port_options(
        "Serve the API there too, for programs that show the token. [only the unix socket]", TOKEN_FILE
    )
    pools = "Sandboxes that claims of agent-sandbox's clients may name there. [none]"
    return port(click.option("--api-pools", type=FILE, metavar="FILE", help=pools)(command))


def add_port_options(help_of_listen: str, token_file: str) -> Callable[[Command], Command]:
    """Add options for a port; the command gets them as `api`. The file lies in the state folder."""

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def opened(*words: object, **given: object) -> int:
            # Not every command has all of them.
            own = {name: given.pop(name) for name in ApiOptions.__dataclass_fields__ if name in given}
            return command(*words, api=ApiOptions(**own), **given)  # type: ignore[arg-type]

        for option in reversed(_OPTIONS):
            opened = option(opened)
        kept = f"[{token_file} in the state folder, created if missing]"
        opened = click.option(
            "--api-token-file", type=FILE, metavar="FILE", help=f"Token for programs there. {kept}"
        )(opened)
        return click.option("--api-listen", metavar="ADDRESS:PORT", help=help_of_listen)(opened)

    return add


_OPTIONS: Final = (
    click.option(
        "--api-name", multiple=True, metavar="HOST", help="Name of this machine in requests. [the address]"
    ),
    click.option(
        "--api-tls-cert",
        type=FILE,
        metavar="FILE",
        help="Certificate chain of the API there, in PEM; required beyond loopback.",
    ),
    click.option("--api-tls-key", type=FILE, metavar="FILE", help="Key of that certificate, in PEM."),
)
