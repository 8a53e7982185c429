"""What is known about mutants: results of earlier runs, and survivors that somebody has looked at.

A killed mutant stays killed while the definition it stands in is the same; a survivor is tried again, since
the tests may have learned something.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Final

from scripts.mutants.sites import Mutant

ACCEPTED: Final = Path(__file__).with_name("accepted.toml")


class Ledger:
    """Results by name and definition, in a file that grows by a line for each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, result = json.loads(line)
                self._known[key] = result

    def result(self, mutant: Mutant) -> str | None:
        return self._known.get(_key(mutant))

    def note(self, mutant: Mutant, result: str) -> None:
        self._known[_key(mutant)] = result
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([_key(mutant), result]) + "\n")


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.scope.source}\0{mutant.name}".encode()).hexdigest()


class Accepted:
    """Survivors that change no verdict, with the reason; and whole definitions that make none."""

    def __init__(self, path: Path = ACCEPTED) -> None:
        read = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        groups, left_out = read.get("accepted", ()), read.get("left_out", ())
        self._reasons = {name: group["why"] for group in groups for name in group["mutants"]}
        self._left_out = {name: group["why"] for group in left_out for name in group["names"]}

    def reasons(self) -> set[str]:
        """Every reason that was given."""
        return {*self._reasons.values(), *self._left_out.values()}

    def files(self) -> list[str]:
        """Every file of which some survivor is accepted."""
        return sorted({name.partition(" | ")[0] for name in self._reasons})

    def why(self, mutant: Mutant) -> str | None:
        """Why this survivor does not matter, if somebody has said so."""
        return self._reasons.get(mutant.name)

    def leaves_out(self, mutant: Mutant) -> bool:
        """Whether mutants of this place are not tried at all."""
        parts = mutant.scope.name.split(".")
        scopes = {f"{mutant.file} {'.'.join(parts[: n + 1])}" for n in range(len(parts))}
        return bool({mutant.file, *scopes} & self._left_out.keys())

    def unused(self, mutants: list[Mutant]) -> list[str]:
        """What is said about mutants that these files no longer have."""
        files = {mutant.file for mutant in mutants}
        names = {mutant.name for mutant in mutants}
        return [name for name in self._reasons if name.partition(" | ")[0] in files and name not in names]
