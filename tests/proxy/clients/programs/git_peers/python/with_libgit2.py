"""Push one ref by libgit2: `with_libgit2.py FOLDER URL SOURCE TARGET [force]`."""

from __future__ import annotations

import os
import sys

import pygit2


class Told(pygit2.RemoteCallbacks):  # type: ignore[misc]
    """Shows the reason of a refusal, as a program on libgit2 has to do itself."""

    refused = 0

    def push_update_reference(self, refname: str, message: str | None) -> None:
        if message is not None:
            self.refused = 1
            sys.stderr.write(f"{refname}: {message}\n")

    def sideband_progress(self, string: str) -> None:
        sys.stderr.write(string)


def main(folder: str, url: str, source: str, target: str, *words: str) -> int:
    # libgit2 looks at no variable for its authorities.
    pygit2.settings.set_ssl_cert_locations(os.environ["SSL_CERT_FILE"], None)  # noqa: TID251 - a program
    plus, told = "+" if "force" in words else "", Told()
    pygit2.Repository(folder).remotes.create_anonymous(url).push(
        [f"{plus}{source}:{target}"], told, proxy=True
    )
    return told.refused


sys.exit(main(*sys.argv[1:]))
