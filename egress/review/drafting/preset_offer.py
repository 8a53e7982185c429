"""The preset for a host that no rule names: one that names the host, or one for package indexes.

A package index may be on any host, so it is recognised by the paths that its clients ask for. Other services
have such paths, too: what is offered is tried on a copy of the rules, and a person decides whether it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from egress.review.drafting.observation import Observation
from egress.review.drafting.placed_edits import item_edit
from egress.review.drafting.rule_file_edit import apply_edit
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import Fields
from egress.rules.compile.presets import read
from egress.rules.decide.policy import Policy
from egress.rules.language.report import Report
from egress.types import Decision, HostDecision

_READING: Final = ("GET", "HEAD")
_ARCHIVE_INDEXES: Final = ("InRelease", "Release", "Release.gpg")
_REGISTRY_WORDS: Final = ("npm", "registry")

type Verdict = Callable[[Policy], Decision | HostDecision]


@dataclass(frozen=True, slots=True)
class PresetOffer:
    """A preset that would allow a request: its place in a file, in words, and the YAML to write."""

    name: str
    title: str
    where: str
    yaml: tuple[str, ...]


def offer_preset(
    one: Observation, sources: Sequence[RuleText], presets: Mapping[str, str], now: int, verdict: Verdict
) -> PresetOffer | None:
    """Return the first preset with which `verdict` allows the request; None if there is none."""
    for name, arguments in _candidates(one, presets):
        edit = item_edit(("use",), {name: arguments} if arguments else name)(sources)
        head = read(name, presets[name], Report())
        if edit is None or head is None:
            continue
        policy = load(apply_edit(sources, edit), presets, now).policy
        if policy is None:
            continue
        found = verdict(policy)
        if found.allowed and not found.observed:
            return PresetOffer(name, head.head.title, f"{edit.where}, under `use`", edit.lines)
    return None


def _candidates(one: Observation, presets: Mapping[str, str]) -> Iterator[tuple[str, Fields]]:
    for name, text in presets.items():
        # Only looked for as a word: whether the preset is about this host shows when it is tried.
        if one.host in text:
            yield name, {}
    found = _index_preset(one)
    if found is not None and found[0] in presets:
        yield found


def _index_preset(one: Observation) -> tuple[str, Fields] | None:
    """Return the preset of a package index that has such paths, for its host."""
    if one.kind != "request" or one.method not in _READING or one.is_cut:
        return None
    segments = one.path.split("/")
    # Both parameters of an index say the same: where its files are elsewhere, that host is denied next.
    if _is_python(segments):
        return "python-index", {"index": one.host, "files": [one.host]}
    if _is_crate(segments):
        return "cargo-index", {"index": one.host, "files": [one.host]}
    if _is_go(segments):
        return "go-proxy", {"proxies": [one.host]}
    if _is_archive(segments):
        return "apt-archive", {"clear_text" if one.scheme == "http" else "archives": [one.host]}
    if _is_npm(segments, one.host):
        return "npm-index", {"registry": one.host}
    return None


def _is_python(segments: Sequence[str]) -> bool:
    # Some servers have it as `+simple`.
    return any(each.endswith("simple") for each in segments[-3:-1]) or segments[-1].endswith(
        (".whl", ".whl.metadata")
    )


def _is_crate(segments: Sequence[str]) -> bool:
    *_, last = segments
    is_file = last.endswith(".crate") or (last == "download" and "crates" in segments)
    return last == "config.json" or is_file or _is_crate_entry(segments)


def _is_crate_entry(segments: Sequence[str]) -> bool:
    """Report whether a path ends like the entry of a crate in a sparse index: wi/dg/widgets."""
    name = segments[-1]
    if not name.replace("-", "").replace("_", "").isalnum():
        return False
    match len(name):
        case 1 | 2:
            folders = [str(len(name))]
        case 3:
            folders = ["3", name[0]]
        case _:
            folders = [name[:2], name[2:4]]
    return [*map(str.lower, segments[-len(folders) - 1 : -1])] == [each.lower() for each in folders]


def _is_go(segments: Sequence[str]) -> bool:
    *_, last = segments
    is_sum = segments[1:2] == ["lookup"] and "@v" in last
    return is_sum or last == "@latest" or segments[-2:-1] == ["@v"]


def _is_archive(segments: Sequence[str]) -> bool:
    *_, last = segments
    return ("dists" in segments and last in _ARCHIVE_INDEXES) or last.endswith(".deb")


def _is_npm(segments: Sequence[str], host: str) -> bool:
    *_, last = segments
    is_file = segments[-2:-1] == ["-"] and last.endswith(".tgz")
    is_scoped = last.startswith("@") and "%2F" in last.upper()
    # The page of a package without a scope has a path like any other: only the host's name tells.
    is_named = len(segments) == 2 and last != "" and any(word in host for word in _REGISTRY_WORDS)
    return is_file or is_scoped or is_named
