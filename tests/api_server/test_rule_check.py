"""A text is checked in another process; an answer of that which is none is an error without its words."""

from __future__ import annotations

import subprocess

import pytest

from egress.api_server.rule_check import check_text
from egress.fleet.errors import CheckFailedError


def test_a_text_is_checked_without_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[subprocess.Popen[bytes]] = []
    begin = subprocess.Popen.__init__

    def noted(self: subprocess.Popen[bytes], *words: object, **options: object) -> None:
        assert isinstance(options["env"], dict)
        assert (set(options["env"]), options["cwd"]) == ({"PYTHONPATH", "PATH"}, "/")
        asked.append(self)
        begin(self, *words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("subprocess.Popen.__init__", noted)
    assert check_text("version: 1\nhosts: {a.example.com: {}}\n").ok
    assert len(asked) == 1


@pytest.mark.parametrize("output", [b"", b"sesame", b'{"ok": 5}'])
def test_what_is_no_answer_is_an_error_without_its_words(
    monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    answer = subprocess.CompletedProcess([], -9, output, b"sesame")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: answer)
    with pytest.raises(CheckFailedError) as caught:
        check_text("sesame")
    assert "sesame" not in f"{caught.value} {caught.value.hint}"
