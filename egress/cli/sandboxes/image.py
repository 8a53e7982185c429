"""`egress image`: the images of Egress, built on this machine, and the files that run them.

All of it is in the package, so an installation needs no checkout. Nothing is published: whoever wants an
image in a registry pushes it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress.cli import atomic_write, render
from egress.cli.render import BOLD, GOOD
from egress.cli.sandboxes import fleet_session
from egress.errors import ContentError, UnreadableError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL: Final = "all"
IMAGES: Final = ("sandbox", "proxy")
_PATH: Final = click.Path(path_type=Path, readable=False)


@click.group()
def image() -> None:
    """Build the images of Egress, and get what runs them."""


@image.command(short_help="Build egress-sandbox, egress-proxy, or both.")
@click.option("--base", metavar="IMAGE", help="What it is built on. [made of what this machine has]")
@click.option("--tag", metavar="NAME", help="What it is called. [egress-sandbox, egress-proxy]")
@click.argument("which", type=click.Choice((*IMAGES, ALL)))
def build(base: str | None, tag: str | None, which: str) -> int:
    """Build the sandbox with tools (egress-sandbox), the proxy (egress-proxy), or both.

    With --base, the sandbox is built on any Debian or Ubuntu, the proxy on an image with pip and the
    same Python as here; the engine fetches a base that it does not have. Without it no registry is
    asked: the sandbox is built on packages, by debootstrap and as root, the proxy on this Python's
    own files. An image that is there already is not built again.

    \b
    Examples:
      egress image build all
      egress image build sandbox --base debian:stable-slim
    """
    if tag is not None and which == ALL:
        raise UsageError("--tag is the name of one image", "build them one by one")
    # Each brings a library with it that other commands never need.
    from egress.runtime.docker.engine import DockerEngine
    from egress.runtime.docker.images import product_images

    engine = DockerEngine()
    try:
        for each in IMAGES if which == ALL else (which,):
            make = product_images.sandbox_image if each == "sandbox" else product_images.proxy_image
            made = make(engine, base, fleet_session.say)
            name = tag or f"egress-{each}"
            product_images.tag_for_user(engine, made, name)
            render.line((name, GOOD), f" is {made}")
    finally:
        engine.close()
    return 0


@image.command(short_help="Write what another builder needs, as a tar archive.")
@click.argument("which", type=click.Choice(IMAGES))
@click.argument("file", type=_PATH)
def context(which: str, file: Path) -> int:
    """Write the recipe of an image, with all that it needs, as a tar archive: for another builder.

    \b
    Examples:
      egress image context proxy proxy.tar
    """
    from egress.runtime.docker.images import recipes

    recipe = recipes.for_sandbox() if which == "sandbox" else recipes.for_proxy()
    try:
        with file.open("xb") as out:
            recipe.write(out)
    except FileExistsError:
        raise ContentError(f"{file} exists and was left alone", "name another file") from None
    except OSError as error:
        raise UnreadableError(f"{file} cannot be written: {reason_of(error)}", "name another file") from None
    name = f"egress-{which}"
    render.line(f"wrote {file}; build it with:")
    words = ["docker", "build", "--file", recipe.file, "--tag", name, "--build-arg", "BASE_IMAGE=IMAGE", "-"]
    render.line("    ", (f"{shlex.join(words)} < {shlex.quote(str(file))}", BOLD), whole=True)
    return 0


@image.command(short_help="Write compose.yaml and its like into a folder.")
@click.argument("folder", type=_PATH)
def files(folder: Path) -> int:
    """Write what runs the images into a folder, to be edited: compose.yaml, kubernetes.yaml, rules.

    Nothing that is there is replaced.

    \b
    Examples:
      egress image files my-agents
    """
    from egress.runtime.docker.images import recipes

    found = recipes.deployment_files()
    _check_free(folder / name for name in found)
    for name, source in found.items():
        target = folder / name
        _make(target.parent)
        atomic_write.write(target, source.read_text("utf-8"), replace=False, option="FOLDER")
        render.line(f"wrote {target}", whole=True)
    return 0


def _check_free(targets: Iterable[Path]) -> None:
    for target in targets:
        if os.path.lexists(target):
            raise ContentError(f"{target} exists, nothing was written", "name another folder")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnreadableError(f"{folder} cannot be made: {reason_of(error)}", "name another folder") from None
