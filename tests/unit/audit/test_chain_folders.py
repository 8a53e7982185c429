"""The folders of chains: which there are, in which order, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.audit.chain_folders import ChainFolder, chain_folders, is_place, numbered_chain


def test_the_folder_of_the_log_is_the_first_chain_even_when_it_is_missing(tmp_path: Path) -> None:
    assert chain_folders(tmp_path / "audit") == (ChainFolder(".", tmp_path / "audit", 1),)


def test_later_chains_follow_by_number_and_those_of_older_versions_by_name(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    for name in ("chains/0003", "chains/0002", "../runs/4f2a9c1e/audit", "../runs/0a2a9c1e/audit"):
        (log / name).mkdir(parents=True)
    found = chain_folders(log)
    assert [chain.place for chain in found] == [
        ".",
        "chains/0002",
        "chains/0003",
        "../runs/0a2a9c1e/audit",
        "../runs/4f2a9c1e/audit",
    ]
    assert [chain.number for chain in found] == [1, 2, 3, 0, 0]
    assert all(chain.path.samefile(log / chain.place) for chain in found)
    assert all(is_place(chain.place) for chain in found)


def test_links_and_other_names_are_no_chains(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    for name in (
        "chains/0001",
        "chains/2",
        "chains/00003",
        "chains/000x",
        "../runs/xyz/audit",
        "../runs/4f2a9c1e",
    ):
        (log / name).mkdir(parents=True)
    (log / "chains/register").write_text("")
    (log / "chains/0004").symlink_to(tmp_path)
    assert [chain.place for chain in chain_folders(log)] == ["."]


def test_older_chains_are_found_from_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "runs/4f2a9c1e/audit").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "audit")
    assert [chain.place for chain in chain_folders(Path())] == [".", "../runs/4f2a9c1e/audit"]


@pytest.mark.parametrize(
    "place",
    *[["", "..", "../x", "/etc", "chains", "chains/..", "chains/1", "chains/0002/..", "../runs/../audit"]],
)
def test_what_is_no_place_is_not_taken_for_one(place: str) -> None:
    assert not is_place(place)


def test_a_file_is_named_from_the_folder_of_the_log(tmp_path: Path) -> None:
    assert numbered_chain(tmp_path, 1).file("head") == "head"
    assert numbered_chain(tmp_path, 12).file("head") == "chains/0012/head"
