"""`egress image`: build the images of Egress on this machine, and write the files to run them.

Everything is in the package, so an installation needs no checkout. Nothing is published: push an image
yourself to use a registry.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress import environment
from egress.cli import atomic_write, folder_options, render
from egress.cli.render import BOLD, GOOD
from egress.cli.sandboxes import build_log
from egress.errors import ContentError, UnreadableError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL: Final = "all"
IMAGES: Final = ("sandbox", "agents", "proxy")
_PATH: Final = click.Path(path_type=Path, readable=False)


@click.group()
def image() -> None:
    """Build images; write compose and Kubernetes files."""


@image.command(short_help="Build egress-sandbox, egress-agents, egress-proxy, or all.")
@click.option("--base", metavar="IMAGE", help="Base image. [built from this machine's files and packages]")
@click.option(
    "--tag", metavar="NAME", help="Name of the image. [egress-sandbox, egress-agents, egress-proxy]"
)
@folder_options.state_dir
@click.option("-v", "--verbose", is_flag=True, help="Print everything that the builders print.")
@click.argument("which", type=click.Choice((*IMAGES, ALL)))
def build(base: str | None, tag: str | None, state_dir: Path | None, verbose: bool, which: str) -> int:
    """Build an image: sandbox has tools, agents has coding agents on top of it, proxy has Egress itself.

    With --base, the sandbox image is built on any Debian or Ubuntu, the agents on any image with Node and
    npm, the proxy image on an image with pip and the same Python as here; the engine pulls a missing base.
    Without it, no registry is used: the sandbox image is built from packages, by debootstrap and as root, the
    agents on the sandbox image, the proxy image from this Python's own files. An existing image is not built
    again. Builders write their output into a log in the state folder, such as `build-egress-sandbox.log`.

    \b
    Examples:
      egress image build agents
      egress image build sandbox --base debian:stable-slim
    """
    for option, value in (("--tag", tag), ("--base", base)):
        if value is not None and which == ALL:
            raise UsageError(f"{option} is for a single image", "build the images one by one")
    # Imported here: each loads a library that other commands never need.
    from egress.runtime.docker.engine import DockerEngine
    from egress.runtime.docker.engine_socket import find_engine
    from egress.runtime.docker.images import product_images

    # The options are checked by now: a wrong one should not need an engine to be reported.
    state = environment.state_dir(folder_options.with_state_dir(state_dir))
    engine = DockerEngine(find_engine(environment.read_environment()))
    try:
        for each in IMAGES if which == ALL else (which,):
            name = tag or f"egress-{each}"
            with build_log.logged_build(f"egress-{each}", state, is_verbose=verbose) as progress:
                made = product_images.MAKERS[each](engine, base, progress)
            product_images.tag_for_user(engine, made, name)
            render.line((name, GOOD), f" is {made}")
    finally:
        engine.close()
    return 0


@image.command(short_help="Write a build context as a tar archive.")
@click.argument("which", type=click.Choice(IMAGES))
@click.argument("file", type=_PATH)
def context(which: str, file: Path) -> int:
    """Write the build context of an image as a tar archive, for another builder.

    \b
    Examples:
      egress image context proxy proxy.tar
    """
    from egress.runtime.docker.images import recipes

    recipe = recipes.PRODUCTS[which]()
    try:
        # `x` never overwrites, even if the file appears just now.
        with file.open("xb") as out:
            recipe.write(out)
    except FileExistsError:
        raise ContentError(f"{file} exists and was not changed", "name another file") from None
    except OSError as error:
        raise UnreadableError(f"{file} cannot be written: {reason_of(error)}", "name another file") from None
    name = f"egress-{which}"
    render.line(f"wrote {file}; build it with:")
    words = ["docker", "build", "--file", recipe.file, "--tag", name, "--build-arg", "BASE_IMAGE=IMAGE", "-"]
    render.line("    ", (f"{shlex.join(words)} < {shlex.quote(str(file))}", BOLD), whole=True)
    return 0


@image.command(short_help="Write compose.yaml and other deployment files.")
@click.argument("folder", type=_PATH)
def files(folder: Path) -> int:
    """Write editable deployment files into a folder: compose.yaml, kubernetes.yaml, a Helm chart, rules.

    Existing files are not replaced.

    \b
    Examples:
      egress image files my-agents
    """
    from egress.runtime.docker.images import recipes

    found = recipes.deployment_files()
    # Every target is checked first, so that a refused run leaves no half-written folder.
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
            raise ContentError(f"{target} exists; nothing was written", "name another folder")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnreadableError(
            f"{folder} cannot be created: {reason_of(error)}", "name another folder"
        ) from None
