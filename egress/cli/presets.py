"""`egress presets`: list presets and their parameters."""

from __future__ import annotations

import click

from egress.cli import render
from egress.cli.render import BOLD, DIM, DOUBT, Cell
from egress.errors import UsageError
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.presets import Parameter, Preset, read
from egress.rules.language.report import Report, did_you_mean, quoted


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def presets(name: str | None, as_json: bool) -> int:
    """List presets for known services, or the parameters of one.

    \b
    Examples:
      egress presets
      egress presets github
      egress presets --json
    """
    known = {preset.name: preset for preset in _read_all()}
    # A typo is the usual cause, so near names are suggested.
    if name is not None and name not in known:
        raise UsageError(f"unknown preset {quoted(name)}", did_you_mean(name, known))
    chosen = [known[name]] if name is not None else list(known.values())
    if as_json:
        render.data({"presets": [_as_data(preset) for preset in chosen]})
    elif name is None:
        render.table([[(preset.name, BOLD), preset.head.title] for preset in chosen])
        render.line()
        render.line(("`egress presets NAME` shows the parameters of a preset.", DIM))
    else:
        _show(chosen[0])
    return 0


def _read_all() -> list[Preset]:
    # An unreadable bundled preset would be a bug; the tests of the presets find it.
    found = (read(name, text, Report()) for name, text in preset_texts().items())
    return [preset for preset in found if preset is not None]


def _show(preset: Preset) -> None:
    render.line((preset.name, BOLD), f"  {preset.head.title}")
    render.line()
    render.table([_row(name, parameter) for name, parameter in preset.head.parameters.items()], indent=2)
    for name, parameter in preset.head.parameters.items():
        for choice, risk in parameter.risks.items():
            render.line(("  risk: ", DOUBT), f"{name}: {choice}: {risk}")
    render.line()
    render.line(("in a rule file:", DIM))
    render.line("  use:")
    given = preset.head.example
    if not given:
        render.line(f"    - {preset.name}")
        return
    from egress.rules.compile.policy_writer import flow

    render.line(f"    - {preset.name}:")
    for key, value in given.items():
        render.line(f"        {key}: {flow(list(value) if isinstance(value, list) else value)}")


def _row(name: str, parameter: Parameter) -> list[Cell]:
    return [(name, BOLD), parameter.type, (_default(parameter), DIM), parameter.help]


def _default(parameter: Parameter) -> str:
    from egress.rules.compile.policy_writer import flow

    if parameter.default is None:
        return "required"
    value = parameter.default
    return flow(list(value) if isinstance(value, list) else value)


def _as_data(preset: Preset) -> dict[str, object]:
    return {
        "name": preset.name,
        "title": preset.head.title,
        "parameters": {
            name: parameter.model_dump(exclude_none=True)
            for name, parameter in preset.head.parameters.items()
        },
        "example": preset.head.example,
    }
