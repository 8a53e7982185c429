"""Options of `egress up` for the address at which previews are served."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from egress.cli.folder_options import FILE
from egress.errors import UsageError
from egress.fleet.preview_address import LOCAL_DOMAIN, PreviewPlace

type Command = Callable[..., int]


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """The options as typed."""

    preview_listen: str | None = None
    preview_domain: str | None = None
    preview_tls_cert: Path | None = None
    preview_tls_key: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """All of these options, for another process with this working folder."""
        return tuple(self._words())

    @property
    def place(self) -> PreviewPlace | None:
        """The place for previews; None for any free port of the loopback. Raises `UsageError`."""
        if self.preview_listen is None:
            for flag in self._words():
                raise UsageError(
                    f"{flag.partition('=')[0]} has no effect without --preview-listen",
                    "name an address there",
                )
            return None
        # Loaded here, since most fleets have no such place.
        from egress.cli.sandboxes.listen_address import read_listen_address

        found = PreviewPlace(
            at=read_listen_address("--preview-listen", self.preview_listen),
            domain=self.preview_domain or LOCAL_DOMAIN,
            certificate=self.preview_tls_cert,
            key=self.preview_tls_key,
        )
        found.check()
        return found

    def _words(self) -> Iterator[str]:
        for flag, value in (
            ("--preview-listen", self.preview_listen),
            ("--preview-domain", self.preview_domain),
            ("--preview-tls-cert", self.preview_tls_cert),
            ("--preview-tls-key", self.preview_tls_key),
        ):
            if value:
                yield f"{flag}={value}"


def add_options(command: Command) -> Command:
    """Add the options; the command gets them as `previews`."""

    @functools.wraps(command)
    def opened(*words: object, **given: object) -> int:
        own = {name: given.pop(name) for name in PreviewOptions.__dataclass_fields__}
        return command(*words, previews=PreviewOptions(**own), **given)  # type: ignore[arg-type]

    for option in reversed(_OPTIONS):
        opened = option(opened)
    return opened


_OPTIONS: Final = (
    click.option(
        "--preview-listen",
        metavar="ADDRESS:PORT",
        help="Serve previews of ports there. [a free port of 127.0.0.1]",
    ),
    click.option(
        "--preview-domain",
        metavar="DOMAIN",
        help="Domain whose names, such as NAME.DOMAIN, all lead there. [localhost]",
    ),
    click.option(
        "--preview-tls-cert",
        type=FILE,
        metavar="FILE",
        help="Certificate chain for *.DOMAIN, in PEM; required beyond loopback.",
    ),
    click.option("--preview-tls-key", type=FILE, metavar="FILE", help="Key of that certificate, in PEM."),
)
