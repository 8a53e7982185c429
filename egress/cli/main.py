"""The `egress` command: finds a sub-command, runs it, and turns every error into a clear message.

Commands are listed here with their one-line help, so that `egress --help` imports none of them.
"""

from __future__ import annotations

import atexit
import difflib
import gc
import importlib
import sys
from collections.abc import Sequence

import click

from egress import __version__
from egress.cli import render
from egress.errors import EgressError, UsageError, reason_of

COMMANDS = {
    "init": ("egress.cli.init:init", "Write a commented hosts.yaml for this machine."),
    "check": ("egress.cli.check:check", "Find every mistake in rule files."),
    "explain": ("egress.cli.explain:explain", "Show what would happen to a request, and why."),
    "test": ("egress.cli.test:test", "Run the tests in rule files."),
    "presets": ("egress.cli.presets:presets", "List presets: ready-made rules for known services."),
    "rules": ("egress.cli.rules:rules", "Show the rules as the proxy sees them."),
    "serve": ("egress.cli.serve:serve", "Run the proxy in the foreground."),
    "run": ("egress.cli.sandboxes.run:run", "Run a command in a sandbox behind the proxy."),
    "shell": ("egress.cli.sandboxes.shell:shell", "Open a shell in a sandbox."),
    "up": ("egress.cli.sandboxes.up:up", "Start a proxy with long-lived sandboxes."),
    "down": ("egress.cli.sandboxes.down:down", "Stop what `egress up` started."),
    "ps": ("egress.cli.sandboxes.ps:ps", "List sandboxes."),
    "exec": ("egress.cli.sandboxes.exec:execute", "Run a command in an existing sandbox."),
    "attach": ("egress.cli.sandboxes.attach_process:attach_process", "Attach to a process of a sandbox."),
    "cp": ("egress.cli.sandboxes.cp:cp", "Copy files into a sandbox, or out of it."),
    "expose": ("egress.cli.sandboxes.expose:expose", "Show ports of sandboxes to browsers."),
    "logs": ("egress.cli.sandboxes.logs:logs", "Show a sandbox's requests."),
    "mcp": ("egress.cli.sandboxes.mcp:mcp", "Serve a sandbox to an agent as MCP tools."),
    "sleep": ("egress.cli.sandboxes.sleep:sleep", "Stop sandboxes until their next use."),
    "wake": ("egress.cli.sandboxes.sleep:wake", "Start sandboxes that are asleep."),
    "rm": ("egress.cli.sandboxes.rm:rm", "Remove sandboxes."),
    "snapshot": ("egress.cli.sandboxes.snapshot:snapshot", "Keep the files of sandboxes under names."),
    "image": ("egress.cli.sandboxes.image:image", "Build images; write compose and Kubernetes files."),
    "trust": ("egress.cli.trust:trust", "Trust a rule file after reading it."),
    "status": ("egress.cli.status:status", "Show the status of a running proxy."),
    "metrics": ("egress.cli.metrics:metrics", "Print the metrics of a running proxy for Prometheus."),
    "gate": ("egress.cli.pod_gate:gate", "Hold a pod back until its network leads to the proxy alone."),
    "net-lock": ("egress.cli.net_lock:net_lock", "Let only the proxy leave the network of a pod."),
    "k8s": ("egress.cli.kubernetes:k8s", "Check and complete Kubernetes manifests; make an authority."),
    "doctor": ("egress.cli.doctor:doctor", "Find problems around the proxy, and their fixes."),
    "kill": ("egress.cli.kill:kill", "Revoke a sandbox, host or secret immediately."),
    "policy": ("egress.cli.policy:policy", "Show or change what one sandbox may do for now."),
    "budget": ("egress.cli.budget:budget", "Show what calls of models have cost, and what is left."),
    "prices": ("egress.cli.prices:prices", "Show what models cost by the rules."),
    "log": ("egress.cli.log:log", "Search, summarise, verify and prune the audit log."),
    "ui": ("egress.cli.ui:ui", "Show the audit log in a browser."),
    "env": ("egress.cli.env:env", "Point a terminal at a running proxy."),
    "demo": ("egress.cli.demo:demo", "Serve a stand-in for an API, to try Egress with."),
    "ca": ("egress.cli.ca:ca", "Show, export or replace the certificate authority."),
    "schema": ("egress.cli.schema:schema", "Print the JSON schema of rule files, for editors."),
    "completion": ("egress.cli.completion:completion", "Print a shell completion script."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        # Imported on use: completion and `--help` of one command should not wait for all the others.
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
            # Cut first: comparing costs the square of the length, and the word is printed.
            close = difflib.get_close_matches(name[:60], COMMANDS, n=1)
            raise UsageError(
                f"unknown command `{name[:60]}`",
                f"did you mean `{close[0]}`?" if close else f"commands: {', '.join(COMMANDS)}",
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="egress", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error; allowed anywhere.")
def cli(debug: bool) -> None:
    """Control what leaves a sandbox, and with which credential.

    \b
    Examples:
      egress check
      egress explain GET https://api.github.com/user
      egress test config/hosts.yaml

    \b
    Exit status:
      0  fine, allowed
      1  content is wrong, a request is denied, a test fails
      2  the command line is wrong
      3  a file is missing, unreadable or unwritable
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; raises only with `--debug`."""
    # Taken out before click sees it, since click accepts a group's option only before the sub-command.
    words, debug = _take_debug(list(sys.argv[1:] if arguments is None else arguments))
    render.prepare()
    # The interpreter's last search for garbage would look at all that was loaded, and all of it goes anyway.
    atexit.register(gc.freeze)
    try:
        status = _run(words)
        # Flushed here, because a failure at the interpreter's exit could not change the status any more.
        render.finish()
    # Expected errors have a message and a hint; others are reported by type only, since their text may hold a
    # secret.
    except EgressError as error:
        return _say(error.message, error.hint, error.exit_status)
    except OSError as error:
        # Before the general case: a full disk or a closed terminal is no bug to report.
        render.give_up()
        return _say(f"the command failed: {reason_of(error)}", "", 3)
    except Exception as error:
        if debug:
            raise
        # Only the type: the text of an unknown error may hold the value of a secret.
        name = type(error).__name__
        return _say(f"unexpected error ({name})", "run it again with --debug and report the bug", 1)
    return status


def _take_debug(words: list[str]) -> tuple[list[str], bool]:
    """Remove `--debug`, which may be anywhere before a `--`."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != "--debug"]
    return rest + words[end:], len(rest) < end


def _run(words: list[str]) -> int:
    try:
        status = cli.main(args=words, prog_name="egress", standalone_mode=False)
    except click.Abort:
        # 128 plus SIGINT, as shells report Ctrl-C.
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        # A usage error to click, but the message is the whole help text and needs no `error:` in front.
        render.text(f"{error.format_message()}\n", stderr=True)
        return 2
    except click.UsageError as error:
        return _say(_sentence(error.format_message()), _usage_hint(error), 2)
    except click.ClickException as error:
        return _say(_sentence(error.format_message()), "", error.exit_code)
    except SystemExit:
        # click exits this way if the reader of a help text went away.
        return 0
    return status if isinstance(status, int) else 0


def _say(message: str, hint: str, status: int) -> int:
    render.error(message, hint)
    return status


def _sentence(message: str) -> str:
    """Put a message of click into our style: lower case at the start, no full stop."""
    return message[:1].lower() + message[1:].removesuffix(".")


def _usage_hint(error: click.UsageError) -> str:
    return f"`{error.ctx.command_path} --help` shows the usage" if error.ctx else ""
