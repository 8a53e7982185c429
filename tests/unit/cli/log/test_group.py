"""The commands of `egress log`."""

from __future__ import annotations

from egress.cli.log.group import log


def test_every_command_is_there_and_says_what_it_is_for() -> None:
    assert set(log.commands) == {"tail", "query", "stats", "show", "suggest", "verify", "export", "prune"} | {
        "collect",
        "archive",
    }
    assert all(command.short_help for command in log.commands.values())
