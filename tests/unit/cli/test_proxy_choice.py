"""The proxy of a sandbox is found among all that run; a doubt is an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from egress.cli import proxy_choice
from egress.cli.proxy_choice import chosen_folders, error_of, folder_of_one, proxy_of
from egress.control_client import NoProxyError
from egress.errors import ContentError, EgressError, UsageError
from egress.fleet.running_proxies import RunProxy
from egress.unix.http_connection import JsonAnswer

ANSWERS = {
    "has": JsonAnswer(200, {"sandbox": "box"}),
    "twin": JsonAnswer(200, {"sandbox": "box"}),
    "lacks": JsonAnswer(404, {"error": "no sandbox has this name"}),
    "broken": JsonAnswer(500, {"error": "it broke"}),
}

RUNNING = [
    RunProxy(Path("one"), "r-1", 1, "", {"b": "", "a": ""}),
    RunProxy(Path("two"), "r-2", 2, "", {f"c{number}": "" for number in range(9)}),
]


def ask(method: str, target: str, body: Mapping[str, object] | None, folder: Path | None) -> JsonAnswer:
    if folder is None or folder.name == "gone":
        raise NoProxyError("no proxy is running")
    return ANSWERS[folder.name]


def found(monkeypatch: pytest.MonkeyPatch, *names: str, sandbox: str = "box") -> str:
    monkeypatch.setattr(proxy_choice, "ask_proxy", ask)
    monkeypatch.setattr(
        proxy_choice, "chosen_folders", lambda runtime_dir, run: [Path(name) for name in names]
    )
    monkeypatch.setattr(proxy_choice, "running_proxies", lambda runtime_dir: RUNNING)
    return str(proxy_of(sandbox, None, None).folder)


def test_the_one_that_has_the_sandbox_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, "lacks", "gone", "has", "broken") == "has"


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["has", "twin"], UsageError, "2 runs have a sandbox of this name"),
        (["lacks", "gone"], UsageError, "no running sandbox is named box"),
        (["lacks", "broken"], ContentError, "it broke"),
        (["gone"], NoProxyError, "no proxy is running"),
        ([], NoProxyError, "no proxy is running"),
    ],
)
def test_no_proxy_or_more_than_one_is_an_error(
    names: list[str], error: type[EgressError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error, match=message):
        found(monkeypatch, *names)


def test_sandboxes_of_all_proxies_are_named_for_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as caught:
        found(monkeypatch, "lacks", "lacks")
    assert caught.value.hint == "sandboxes: a, b, c0, c1, c2, c3, c4, c5, c6, c7 and 1 more"


@pytest.mark.parametrize("name", ["", "../kill", "a b", "A", "x" * 64, "a\r\nb", "box/"])
def test_a_name_that_is_none_asks_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no name of a sandbox"):
        found(monkeypatch, "gone", sandbox=name)


def test_a_run_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    assert chosen_folders(tmp_path, None) == []
    with pytest.raises(UsageError, match="no run r-1 is running"):
        chosen_folders(tmp_path, "r-1")


def test_a_wrong_question_is_told_from_a_refusal() -> None:
    assert isinstance(error_of(JsonAnswer(400, {})), UsageError)
    assert isinstance(error_of(JsonAnswer(409, {})), ContentError)


def one_of(
    monkeypatch: pytest.MonkeyPatch, *names: str, run: str | None = None, running: list[RunProxy] = RUNNING
) -> str:
    """The folder that is chosen among these, beside the proxies that answer."""
    monkeypatch.setattr(proxy_choice, "proxy_folders", lambda above: [Path(name) for name in names])
    monkeypatch.setattr(proxy_choice, "running_proxies", lambda above: running)
    return str(folder_of_one(Path("usual"), run))


def test_the_only_proxy_is_chosen_and_without_any_the_usual_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one_of(monkeypatch, "one") == "one"
    assert one_of(monkeypatch) == "usual"
    assert one_of(monkeypatch, "gone", "lost", running=[]) == "usual"


def test_folders_of_runs_that_ended_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one_of(monkeypatch, "gone", "one", running=RUNNING[:1]) == "one"


def test_the_proxy_of_serve_comes_first_and_a_named_run_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    serve = RunProxy(Path("usual"), "r-0", 3, "", {})
    assert one_of(monkeypatch, "usual", "one", "two", running=[serve, *RUNNING]) == "usual"
    assert one_of(monkeypatch, "usual", "one", "two", run="r-2", running=[serve, *RUNNING]) == "two"


def test_of_several_none_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="2 proxies are running") as caught:
        one_of(monkeypatch, "one", "two")
    assert caught.value.hint == "name one with --run: r-1, r-2"
