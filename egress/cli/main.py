"""`egress` itself: finds the command, runs it, and turns every error into one clear message.

Commands are named here with their one-line help, so that `egress --help` loads none of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from egress import __version__
from egress.errors import EgressError

COMMANDS = {
    "init": ("egress.cli.init:init", "Write a commented hosts.yaml for this machine."),
    "check": ("egress.cli.check:check", "Find every mistake in rule files."),
    "explain": ("egress.cli.explain:explain", "Say what would happen to a request, and why."),
    "test": ("egress.cli.test:test", "Run the tests that stand beside the rules."),
    "rules": ("egress.cli.rules:rules", "Show the rules as the proxy sees them."),
    "schema": ("egress.cli.schema:schema", "Print the JSON schema of rule files, for editors."),
    "completion": ("egress.cli.completion:completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from egress.rules.report import did_you_mean

            hint = did_you_mean(name, COMMANDS)
            ctx.fail(f"there is no command {name!r}" + (f"; {hint}" if hint else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="egress", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """Decide what leaves a sandbox, and with which credential.

    \b
    Examples:
      egress check
      egress explain GET https://api.github.com/user
      egress test config/hosts.yaml
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; never raises."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = cli.main(args=words, prog_name="egress", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return 130
    except click.UsageError as error:
        return _say(error.format_message(), _usage_hint(error), 2)
    except click.ClickException as error:
        return _say(error.format_message(), "", error.exit_code)
    except EgressError as error:
        return _say(error.message, error.hint, error.exit_status)
    except BrokenPipeError:
        # The reader went away, as in `egress rules show | head`: nothing is wrong.
        sys.stderr.close()
        return 0
    except Exception as error:
        if "--debug" in words:
            raise
        return _say(
            f"something unexpected went wrong ({type(error).__name__})",
            "run it again with `egress --debug ...`",
            1,
        )
    return status if isinstance(status, int) else 0


def _say(message: str, hint: str, status: int) -> int:
    from egress.cli import render

    render.error(message, hint)
    return status


def _usage_hint(error: click.UsageError) -> str:
    return f"`{error.ctx.command_path} --help` shows how it is used" if error.ctx else ""
