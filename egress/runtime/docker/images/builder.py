"""Builds an image from a recipe, with the engine's own builder.

Settings of the user's Docker client are left out: they may hold proxies with passwords, which would stay in
the image. No image is pulled unless the recipe names a missing base.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from docker import APIClient
from docker.errors import DockerException

from egress.runtime.docker import superseded_images
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.recipes import Recipe
from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.errors import EngineError

type ProgressCallback = Callable[[str], None]

_BUILD_TIMEOUT: Final = 900
_MAX_ERROR_LINES: Final = 5
_FAILED_HINT: Final = "fix the error of the last step"
_NO_BASE_HINT: Final = "name a base that the engine has, or omit it to build one without a registry"
_STEP: Final = re.compile(r"Step \d+/\d+ : ")
_BASE_STEP: Final = re.compile(r"Step \d+/\d+ : FROM ")
_MADE_IMAGE: Final = re.compile(r"---> ([0-9a-f]{12,64})")
_COLOUR_CODE: Final = re.compile(r"\x1b\[[0-9;]*m")


def ignore_progress(_: str) -> None:
    """Default callback: print no progress."""


class BuildProgress(Protocol):
    """Is told how far a build is."""

    def step(self, text: str) -> None:
        """A step of the build begins."""

    def output(self, line: str) -> None:
        """A step of the build has printed a line."""


class NoBuildProgress:
    """The default: nothing is printed."""

    def step(self, text: str) -> None:
        """Print nothing."""

    def output(self, line: str) -> None:
        """Print nothing."""


NO_BUILD_PROGRESS: Final = NoBuildProgress()


class BuildFailedError(EngineError):
    """The engine could not build an image. `cause` is its own last word, without the output before it."""

    def __init__(self, message: str, hint: str, cause: str = "") -> None:
        super().__init__(message, hint)
        self.cause = cause or message


def build(
    engine: DockerEngine,
    recipe: Recipe,
    name: str,
    arguments: Mapping[str, str],
    more: Mapping[str, Path] | None = None,
    progress: BuildProgress = NO_BUILD_PROGRESS,
    *,
    is_offline: bool,
) -> str:
    """Build an image with this name, and return the name. `progress` gets all output of the engine.

    `is_offline`: the build steps get no network.

    Raises `BuildFailedError` with the last lines of a failed build, and `EngineError`.
    """
    with tempfile.TemporaryFile() as context:
        recipe.write(context, more)
        context.seek(0)
        # A client of its own: builds take minutes, and the engine client's timeout is shorter.
        api = APIClient(f"unix://{engine.socket}", version=engine.api_version, timeout=_BUILD_TIMEOUT)
        try:
            said: Iterable[Mapping[str, object]] = api.build(
                fileobj=context,
                custom_context=True,
                dockerfile=recipe.file,
                tag=name,
                buildargs=dict(arguments),
                labels={IMAGE_LABEL: name.partition(":")[0]},
                rm=True,
                forcerm=True,
                decode=True,
                use_config_proxy=False,
                network_mode="none" if is_offline else None,
            )
            stages = _follow(said, progress)
        except (DockerException, OSError) as error:
            raise EngineError(
                f"the engine did not build {name} ({type(error).__name__})",
                "check that it runs, and see its log",
            ) from None
        finally:
            api.close()
    engine.image_id(name)
    superseded_images.remove_stages(engine, stages)
    superseded_images.remove_superseded(engine, name.partition(":")[0])
    return name


def _follow(said: Iterable[Mapping[str, object]], progress: BuildProgress) -> list[str]:
    """Pass on what the engine says, and return the images in which stages before the last one ended."""
    lines: list[str] = []
    stages: list[str] = []
    image = ""
    pulling: set[str] = set()
    failure: BuildFailedError | None = None
    # Read to its end also after a failure: a response that is given up keeps its connection open.
    for each in said:
        if "error" in each and failure is None:
            cause = strip_control_characters(str(each["error"]))
            text = " | ".join([*lines[-_MAX_ERROR_LINES:], cause])
            has_base = not lines or not _BASE_STEP.match(lines[-1])
            hint = _FAILED_HINT if has_base else _NO_BASE_HINT
            failure = BuildFailedError(
                f"cannot build the image: {text}", hint, f"cannot build the image: {cause}"
            )
        for line in str(each.get("stream", "")).splitlines():
            if text := strip_control_characters(line):
                lines.append(text)
                (progress.step if _STEP.match(text) else progress.output)(text)
            if made := _MADE_IMAGE.fullmatch(text):
                image = made[1]
            elif image and _BASE_STEP.match(text):
                stages.append(image)
        # A pull reports each piece of each layer; only each stage is passed on, once.
        stage = strip_control_characters(str(each.get("status", "")))
        if stage and stage not in pulling:
            pulling.add(stage)
            progress.output(stage)
    if failure is not None:
        raise failure
    return stages


def strip_control_characters(line: str) -> str:
    """Remove colours and every other control character."""
    return "".join(letter for letter in _COLOUR_CODE.sub("", line) if letter.isprintable()).strip()
