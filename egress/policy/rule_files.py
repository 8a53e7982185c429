"""Which files are the rules, and from these files to a policy.

A name stands for what it says: a file is that file alone, a directory is every `*.yaml` right in it.
Nothing is joined in silence, and nothing that looks like a rule file is left out in silence either: a
deny rule that nobody reads denies nothing.

Whether a file is *trusted* is not asked here: `check`, `explain` and `test` may read any.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from egress.errors import UnreadableError
from egress.policy.bundled_presets import preset_texts
from egress.policy.rule_file_reader import NotTextError, printable_path, read_text, unreadable_error
from egress.rules.compile.load import LoadResult, RuleText, load

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_RULE_FILES = (Path("config/hosts.yaml"), Path("hosts.yaml"))
"""Where rules are looked for when no file is named; the first that exists is taken."""


def find_rule_files(given: Sequence[Path], cwd: Path) -> tuple[Path, ...]:
    """Return the rule files that `given` stands for, or the default one below `cwd`.

    Raises `UnreadableError` when there is none. Order is kept, and files of a directory are sorted by
    name. Findings show the names as they come out of here: a `cwd` of `ValuePath()` keeps them short.
    """
    if not given:
        return (_default(cwd),)
    found = [file for path in given for file in (_in_directory(path) if _is_directory(path) else [path])]
    return tuple(dict.fromkeys(found))


def load_policy(paths: Sequence[Path], now: int | None = None) -> LoadResult:
    """Read rule files and compile them, with the shipped presets at hand.

    Raises `UnreadableError` for a path that cannot be read. When a file is no text, that alone is
    reported: what the others lack without it would be guesswork.
    """
    sources, findings = [], []
    for path in paths:
        try:
            sources.append(RuleText(printable_path(path), read_text(path)))
        except NotTextError as error:
            findings.append(error.finding)
    return LoadResult(None, tuple(findings)) if findings else load(sources, preset_texts(), now)


def _default(cwd: Path) -> Path:
    for name in DEFAULT_RULE_FILES:
        # Something is there even when it cannot be read: then that is said, and no other file is taken.
        if _stands_there(cwd / name):
            return cwd / name
    names = " nor ".join(str(name) for name in DEFAULT_RULE_FILES)
    raise UnreadableError(
        f"there are no rules here: neither {names}", "name a file, or write one with `egress init`"
    )


def _stands_there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable_error(path, error) from None
    return True


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise unreadable_error(path, error) from None


def _in_directory(folder: Path) -> list[Path]:
    """Every rule file right in `folder`, sorted by name; hidden ones belong to editors."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise unreadable_error(folder, error) from None
    for name in names:
        if name.lower().endswith((".yml", ".yaml")) and not name.endswith(".yaml"):
            raise UnreadableError(
                f"{printable_path(folder / name)} would be left out: only *.yaml is read",
                "rename it to end in .yaml",
            )
    files = [folder / name for name in names if name.endswith(".yaml")]
    if not files:
        raise UnreadableError(
            f"the directory {printable_path(folder)} holds no *.yaml", "name a file, or put rules into it"
        )
    return files
