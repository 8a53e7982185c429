"""`egress completion`: print a shell completion script."""

from __future__ import annotations

import click

from egress.cli import render


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a shell completion script.

    \b
    Install it, for example:
      egress completion bash > ~/.local/share/bash-completion/completions/egress
      egress completion fish > ~/.config/fish/completions/egress.fish

    \b
    Examples:
      egress completion zsh
    """
    from click.shell_completion import get_completion_class

    # Lazy: the main module imports this one by name.
    from egress.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - the choice above names only shells that click knows
        raise click.UsageError(f"no completion for {shell}")
    render.text(kind(cli, {}, "egress", "_EGRESS_COMPLETE").source() + "\n")
    return 0
