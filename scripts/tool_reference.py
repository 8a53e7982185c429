"""The table of docs/works-with.md, from what the tests of tools have proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scripts.works_with import AbsentRow, ToolRow, tool_table

RUNTIME_NAMES = {"docker": "Docker", "namespace": "namespaces"}


def rows() -> Iterator[str]:
    """A heading and a table for each family."""
    found = tool_table()
    families = {row["family"] for row in (*found["tools"].values(), *found["absent"].values())}
    for family in sorted(families):
        yield from ("", f"## {family}", "")
        yield "| tool | rules | set in the sandbox | runs in | proven | cannot |"
        yield "| --- | --- | --- | --- | --- | --- |"
        yield from _family(family, found["tools"], found["absent"])


def _family(family: str, tools: Mapping[str, ToolRow], absent: Mapping[str, AbsentRow]) -> Iterator[str]:
    for name, row in sorted(tools.items(), key=lambda item: item[0].casefold()):
        if row["family"] == family:
            version = f"[{name}](../{row['test']}) {row['version']}"
            cells = (
                version,
                row["rules"],
                _set(row),
                _runtimes(row),
                _facts(row),
                "<br>".join(row["cannot"].values()),
            )
            yield f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"
    for name, missing in sorted(absent.items(), key=lambda item: item[0].casefold()):
        if missing["family"] == family:
            yield f"| {name} |  |  | not tried | {missing['why']} |  |"


def _set(row: ToolRow) -> str:
    """What its user sets, beside the rules and the key."""
    told = [f"`--agent {row['agent']}`"] if row["agent"] else []
    told += [f"`{name}={value}`" for name, value in row["sets"].items()]
    return "; ".join(told) or "nothing"


def _runtimes(row: ToolRow) -> str:
    """The runtimes in which all was proven."""
    everywhere = set.intersection(*(set(runtimes) for runtimes in row["proves"].values()))
    return ", ".join(RUNTIME_NAMES[each] for each in sorted(everywhere))


def _facts(row: ToolRow) -> str:
    """What works, and where, if not everywhere."""
    every = {runtime for runtimes in row["proves"].values() for runtime in runtimes}
    return ", ".join(
        fact if set(runtimes) == every else f"{fact} ({', '.join(RUNTIME_NAMES[each] for each in runtimes)})"
        for fact, runtimes in row["proves"].items()
        if fact not in row["cannot"]
    )
