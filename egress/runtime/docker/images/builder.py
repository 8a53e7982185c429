"""Builds an image from a recipe, with the engine's own builder.

Settings of the user's Docker client are left out: they may hold proxies with passwords, which would stay in
the image. No image is pulled unless the recipe names a missing base.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from docker import APIClient
from docker.errors import DockerException

from egress.runtime.docker import superseded
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.recipes import Recipe
from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.errors import EngineError

type ProgressCallback = Callable[[str], None]

_BUILD_TIMEOUT: Final = 900
_MAX_ERROR_LINES: Final = 5
_FAILED_HINT: Final = "fix the error of the last step"
_NO_BASE_HINT: Final = "name a base that the engine has, or omit it to build one without a registry"
_BASE_STEP: Final = re.compile(r"Step \d+/\d+ : FROM ")
_MADE_IMAGE: Final = re.compile(r"---> ([0-9a-f]{12,64})")
_COLOUR_CODE: Final = re.compile(r"\x1b\[[0-9;]*m")


def ignore_progress(_: str) -> None:
    """Default callback: print no progress."""


def build(
    engine: DockerEngine,
    recipe: Recipe,
    name: str,
    arguments: Mapping[str, str],
    more: Mapping[str, Path] | None = None,
    say: ProgressCallback = ignore_progress,
    *,
    is_offline: bool,
) -> str:
    """Build an image with this name, and return the name. `say` gets each step of the engine's output.

    `is_offline`: the build steps get no network.

    Raises `EngineError` with the last lines of a failed build.
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
            stages = _follow(said, say)
        except (DockerException, OSError) as error:
            raise EngineError(
                f"the engine did not build {name} ({type(error).__name__})",
                "check that it runs, and see its log",
            ) from None
        finally:
            api.close()
    engine.image_id(name)
    superseded.remove_stages(engine, stages)
    superseded.remove_superseded(engine, name.partition(":")[0])
    return name


def _follow(said: Iterable[Mapping[str, object]], say: ProgressCallback) -> list[str]:
    """Pass on what the engine says, and return the images in which stages before the last one ended."""
    lines: list[str] = []
    stages: list[str] = []
    image = ""
    pulling: set[str] = set()
    for each in said:
        if "error" in each:
            text = " | ".join([*lines[-_MAX_ERROR_LINES:], _strip_colours(str(each["error"]))])
            has_base = not lines or not _BASE_STEP.match(lines[-1])
            raise EngineError(f"cannot build the image: {text}", _FAILED_HINT if has_base else _NO_BASE_HINT)
        for line in str(each.get("stream", "")).splitlines():
            if text := _strip_colours(line):
                lines.append(text)
                say(text)
            if made := _MADE_IMAGE.fullmatch(text):
                image = made[1]
            elif image and _BASE_STEP.match(text):
                stages.append(image)
        # A pull reports each piece of each layer; only each stage is passed on, once.
        stage = _strip_colours(str(each.get("status", "")))
        if stage and stage not in pulling:
            pulling.add(stage)
            say(stage)
    return stages


def _strip_colours(line: str) -> str:
    """Remove colours and every other control character."""
    return "".join(letter for letter in _COLOUR_CODE.sub("", line) if letter.isprintable()).strip()
