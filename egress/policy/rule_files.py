"""Find the rule files, and load a policy from them.

A name means only itself: a file means that file, a directory means every `*.yaml` directly in it. Files are
never joined silently, and a likely rule file is never skipped silently either: a deny rule that is not read
denies nothing.

Trust is not checked here: `check`, `explain` and `test` may read any file.
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
"""Default places of the rules; the first that exists is used."""


class NoRulesError(UnreadableError):
    """No rules were named, and there are none at the default places."""


def find_rule_files(given: Sequence[Path], cwd: Path) -> tuple[Path, ...]:
    """Return the rule files that `given` means, or the default file below `cwd`.

    Raises `NoRulesError` if there is none, `UnreadableError` for one that cannot be read. Order is kept, and
    files of a directory are sorted by name. Findings show the names as returned here: a `cwd` of `Path()`
    keeps them short.
    """
    if not given:
        return (_default(cwd),)
    found = [file for path in given for file in (_in_directory(path) if _is_directory(path) else [path])]
    return tuple(dict.fromkeys(found))


def read_rule_texts(given: Sequence[Path]) -> tuple[RuleText, ...]:
    """Return the texts of the rule files that `given` means. Raises `UnreadableError`, `NotTextError`."""
    return tuple(RuleText(printable_path(path), read_text(path)) for path in find_rule_files(given, Path()))


def load_policy(paths: Sequence[Path], now: int | None = None) -> LoadResult:
    """Read rule files and compile them, with the bundled presets.

    Raises `UnreadableError` for a path that cannot be read. If a file is not text, only that is reported:
    findings about the other files would be guesswork without it.
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
        # A file that exists but cannot be read is an error: silently using the other one could drop denies.
        if _stands_there(cwd / name):
            return cwd / name
    names = " nor ".join(str(name) for name in DEFAULT_RULE_FILES)
    raise NoRulesError(f"no rules found: neither {names}", "name a file, or create one with `egress init`")


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
    """Return every rule file directly in `folder`, sorted by name; hidden files belong to editors."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise unreadable_error(folder, error) from None
    for name in names:
        # A skipped deny file would open hosts silently.
        if name.lower().endswith((".yml", ".yaml")) and not name.endswith(".yaml"):
            raise UnreadableError(
                f"{printable_path(folder / name)} would be ignored: only *.yaml is read",
                "rename it to end in .yaml",
            )
    files = [folder / name for name in names if name.endswith(".yaml")]
    if not files:
        raise UnreadableError(
            f"the directory {printable_path(folder)} contains no *.yaml", "name a file, or add rules to it"
        )
    return files
