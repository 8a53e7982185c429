"""What the engine says while it builds. That it builds is for tests/container."""

from __future__ import annotations

import pytest

from egress.runtime.docker.images.builder import NO_BUILD_PROGRESS, BuildFailedError, _follow
from egress.runtime.errors import EngineError


class Told:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def output(self, line: str) -> None:
        self.lines.append(line)


def test_each_step_is_told_as_a_plain_line() -> None:
    told = Told()
    _follow([{"stream": "Step 1/2 : FROM x\n\n"}, {"aux": {}}, {"stream": "\x1b[91mred\x1b[0m\n"}], told)
    assert (told.steps, told.lines) == (["Step 1/2 : FROM x"], ["red"])


def test_a_build_that_failed_ends_with_its_last_lines() -> None:
    lines = [{"stream": f"line {number}\n"} for number in range(20)]
    with pytest.raises(EngineError) as caught:
        _follow([*lines, {"error": "\x1b[91mno such thing\x1b[0m"}], NO_BUILD_PROGRESS)
    assert str(caught.value).endswith("line 18 | line 19 | no such thing")
    assert "line 3 " not in str(caught.value)
    assert isinstance(caught.value, BuildFailedError)
    assert caught.value.cause == "cannot build the image: no such thing"


def test_a_base_that_nobody_has_is_told_with_what_to_do_without_a_registry() -> None:
    lines = ["Step 1/8 : ARG BASE_IMAGE=debian\n", "Step 2/8 : FROM ${BASE_IMAGE}\n"]
    with pytest.raises(EngineError, match="no such host") as caught:
        _follow([*({"stream": line} for line in lines), {"error": "no such host"}], NO_BUILD_PROGRESS)
    assert "without a registry" in caught.value.hint
    with pytest.raises(EngineError) as caught:
        _follow([{"stream": "Step 3/8 : RUN true\n"}, {"error": "no such host"}], NO_BUILD_PROGRESS)
    assert caught.value.hint == "fix the error of the last step"


def test_each_stage_of_a_base_that_is_fetched_is_told_once() -> None:
    told = Told()
    layers = [{"status": "Downloading", "id": name, "progress": "[=>  ]"} for name in "aab"]
    _follow([{"status": "Pulling from library/x"}, *layers, {"status": "Pull complete", "id": "a"}], told)
    assert told.lines == ["Pulling from library/x", "Downloading", "Pull complete"]


def test_a_base_that_could_not_be_fetched_is_told_as_one() -> None:
    lines = [{"stream": "Step 2/8 : FROM ${BASE_IMAGE}\n"}, {"status": "Pulling from library/x"}]
    with pytest.raises(EngineError) as caught:
        _follow([*lines, {"error": "unauthorized"}], NO_BUILD_PROGRESS)
    assert "without a registry" in caught.value.hint


def test_the_images_in_which_stages_end_are_found() -> None:
    """With the engine's own words; the last stage is the image itself."""
    lines = (
        "Step 1/4 : FROM base AS one\n",
        " ---> aaaaaaaaaaaa\n",
        "Step 2/4 : RUN true\n",
        " ---> Running in 0123456789ab\n",
        "Removing intermediate container 0123456789ab\n",
        " ---> bbbbbbbbbbbb\n",
        "Step 3/4 : FROM base\n",
        " ---> aaaaaaaaaaaa\n",
        "Step 4/4 : CMD true\n",
        " ---> cccccccccccc\n",
    )
    assert _follow([{"stream": line} for line in lines], NO_BUILD_PROGRESS) == ["bbbbbbbbbbbb"]
