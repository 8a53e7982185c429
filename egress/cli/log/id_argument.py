"""Commands with an id argument, which may begin with a dash like an option."""

from __future__ import annotations

import re

import click

_ID = re.compile(r"-[A-Za-z0-9_-]{11}")


class IdCommand(click.Command):
    """A command with a single id argument: a word like an id is an id, unless it names an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {name for param in self.get_params(ctx) for name in param.opts}
        # An id is random base64url, so about one in 64 begins with a dash.
        ids = [word for word in args if _ID.fullmatch(word) and word not in names]
        if ids and "--" not in args:
            args = [*(word for word in args if word not in ids), "--", *ids]
        return super().parse_args(ctx, args)
