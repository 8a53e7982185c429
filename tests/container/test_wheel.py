"""What is installed from a wheel can do without a checkout: its images, and the files that run them.

The wheel is built by the build backend as an index would get it, unpacked in a folder, and used from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import recipes
from egress.runtime.errors import ImageMissingError
from tests.container.conftest import one_at_a_time
from tests.container.recipe_folder import FOLDER

ROOT = FOLDER.parent
OWN = "egress-wheel-test"
"""So that the name of somebody's own image stays where it is."""


@dataclass(frozen=True)
class Installed:
    """The package, unpacked where no checkout is."""

    folder: Path

    def egress(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "egress", *words)

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        # Before the checkout, which is installed beside its dependencies.
        environ = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: TID251
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder.parent,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = place.glob("egress-*.whl")
    folder = place / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return Installed(folder)


def test_it_is_the_unpacked_one_that_is_asked(installed: Installed) -> None:
    said = installed.python("-c", "import egress; print(egress.__file__)").stdout
    assert Path(said.strip()).is_relative_to(installed.folder)


def test_all_that_images_are_made_of_is_inside(installed: Installed) -> None:
    """File by file what the checkout would build: the same digest is the same image."""
    code = (
        "from egress.runtime.docker.images import recipes as r;"
        "print(*(each.digest() for each in (r.for_proxy(), r.for_sandbox(), r.for_agents(), r.for_door())))"
    )
    done = installed.python("-c", code)
    here = (recipes.for_proxy(), recipes.for_sandbox(), recipes.for_agents(), recipes.for_door())
    inside = {path.relative_to(installed.folder).as_posix() for path in installed.folder.rglob("*")}
    assert {name for name in here[0].files if name.startswith("egress/")} <= inside
    assert done.stdout.split() == [each.digest() for each in here], done.stderr


def test_what_runs_the_images_is_inside(installed: Installed, tmp_path: Path) -> None:
    done = installed.egress("image", "files", str(tmp_path / "mine"))
    assert done.returncode == 0, done.stderr
    for name, source in recipes.deployment_files().items():
        assert (tmp_path / "mine" / name).read_bytes() == source.read_bytes()


def test_the_script_for_a_checkout_says_that_this_is_none(installed: Installed) -> None:
    script = installed.folder / "egress/container/build"
    done = subprocess.run(["sh", str(script), "all"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "egress image build" in done.stderr


@pytest.fixture
def named(engine: DockerEngine) -> Iterator[str]:
    yield OWN
    engine.remove_image(OWN)


@pytest.mark.system("docker", "docker.io")
@pytest.mark.timeout(400)
def test_the_proxy_is_built_of_it(
    installed: Installed, engine: DockerEngine, named: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with one_at_a_time(tmp_path_factory):
        done = installed.egress("image", "build", "proxy", "--tag", named)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{named} is egress-proxy:")
    built = done.stdout.split()[-1]
    assert engine.image_id(named) == engine.image_id(built)
    # One that was built is there, and nothing is built for another name.
    again = installed.egress("image", "build", "proxy", "--tag", named)
    assert again.stdout == done.stdout
    assert "Step " not in again.stderr


@pytest.mark.system("docker", "docker.io")
def test_a_base_that_nobody_has_is_told_with_its_cure(installed: Installed, engine: DockerEngine) -> None:
    done = installed.egress("image", "build", "sandbox", "--base", "127.0.0.1:1/nothing", "--tag", OWN)
    assert done.returncode == 3
    # The last lines of the build. The line of its progress is there only if it took longer than two seconds.
    assert "Step 1/" in done.stderr
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("error: cannot build the image")
    assert "name a base that the engine has" in hint
    with pytest.raises(ImageMissingError):
        engine.image_id(OWN)
