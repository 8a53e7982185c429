"""Rules for an agent whose user has none yet: the preset of the agent's provider, in a file to look at.

Rules that exist are never passed over: not those that are named, not those of `egress up`, not those in the
user's configuration or in the working folder, be they readable, trusted, or neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from egress import environment
from egress.cli.sandboxes.agents import Agent
from egress.errors import UnreadableError, reason_of
from egress.policy.rule_files import NoRulesError
from egress.policy.rule_source import choose_rules
from egress.policy.state_dir_ownership import make_state_dir
from egress.private_file import write_atomically

RULES_VARIABLE: Final = "EGRESS_RULES"
_FOLDER: Final = "agents"
_FILE_MODE: Final = 0o600
_TEXT: Final = """\
# Written by `egress run --agent {agent}`, which found no rules. It is not written again: edit it, or name
# rules of your own with --rules.
version: 1
use: [{presets}]
"""


def rules_for(agent: Agent, named: Sequence[Path], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The rule files to name for a proxy of this process: the preset's where there are no rules at all.

    Raises `UnreadableError` if the file cannot be written.
    """
    if named or environ.get(RULES_VARIABLE):
        return tuple(named)
    try:
        choose_rules((), environment.config_dir(environ), Path())
    except NoRulesError:
        return (_preset_file(agent, environ),)
    except UnreadableError:
        # There are rules that cannot be read: the proxy says so.
        return ()
    return ()


def _preset_file(agent: Agent, environ: Mapping[str, str]) -> Path:
    """The file for the providers whose key is there, or for all of them."""
    have = [preset for variable, preset in agent.keys.items() if environ.get(variable)]
    presets = have or list(agent.presets)
    folder = environment.state_dir(environ) / _FOLDER
    path = folder / f"{'+'.join(presets)}.yaml"
    try:
        make_state_dir(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        text = _TEXT.format(agent=agent.name, presets=", ".join(presets))
        # What is there may have been edited.
        write_atomically(path, text.encode("utf-8"), _FILE_MODE, replace=False)
    except OSError as error:
        raise UnreadableError(
            f"{path} cannot be written: {reason_of(error)}", "name rules with --rules"
        ) from None
    return path
