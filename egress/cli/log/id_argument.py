"""Commands about one request, whose id may begin with a dash, as an option does."""

from __future__ import annotations

import re

import click

_ID = re.compile(r"-[A-Za-z0-9_-]{11}")


class IdCommand(click.Command):
    """A command whose one argument is an id: what looks like one is one, unless it is an option's name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {name for param in self.get_params(ctx) for name in param.opts}
        ids = [word for word in args if _ID.fullmatch(word) and word not in names]
        if ids and "--" not in args:
            args = [*(word for word in args if word not in ids), "--", *ids]
        return super().parse_args(ctx, args)
