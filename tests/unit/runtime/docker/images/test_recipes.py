"""Where the recipes are, and the contexts that are made of them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import egress
from egress.runtime.docker.images import recipes
from egress.runtime.docker.images.recipes import Recipe, for_door, for_proxy, for_sandbox
from egress.runtime.errors import UnsupportedError


def written(recipe: Recipe, **more: Path) -> dict[str, bytes]:
    out = io.BytesIO()
    recipe.write(out, more)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        found = {entry.name: tar.extractfile(entry) for entry in tar.getmembers()}
        return {name: file.read() for name, file in found.items() if file is not None}


@pytest.mark.parametrize("recipe", [for_proxy(), for_sandbox(), for_door()], ids=lambda recipe: recipe.file)
def test_a_context_holds_its_recipe(recipe: Recipe) -> None:
    assert b"ARG BASE_IMAGE" in written(recipe)[recipe.file]


def test_the_context_of_the_proxy_is_the_package_and_its_lock_file() -> None:
    found = written(for_proxy())
    package = Path(egress.__file__).parent
    modules = {path.relative_to(package.parent).as_posix() for path in package.rglob("*.py")}
    assert modules <= found.keys()
    assert {"requirements.lock", "egress/py.typed", "container/proxy/install.py"} <= found.keys()


def test_the_context_of_the_proxy_holds_nothing_else() -> None:
    found = written(for_proxy())
    assert {name.split("/")[0] for name in found} == {"container", "egress", "requirements.lock"}
    assert not [name for name in found if "__pycache__" in name or name.endswith(".pyc")]
    assert [name for name in found if name.startswith("container/") and "/proxy" not in name] == []


def test_more_files_come_in_and_change_no_digest(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"packed")
    recipe = for_sandbox()
    assert written(recipe, wheel=wheel)["wheel"] == b"packed"
    assert recipe.digest() == for_sandbox().digest()


def test_a_digest_follows_every_file_and_word(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_bytes(b"1")
    recipe = Recipe("one", {"one": one})
    digests = {recipe.digest(), recipe.digest("base"), Recipe("one", {"two": one}).digest()}
    one.write_bytes(b"2")
    digests.add(recipe.digest())
    assert len(digests) == 4


def test_a_context_does_not_say_when_or_by_whom_it_was_written(tmp_path: Path) -> None:
    one, out, again = tmp_path / "one", io.BytesIO(), io.BytesIO()
    one.write_bytes(b"1")
    Recipe("one", {"one": one}).write(out)
    one.chmod(0o600)
    one.write_bytes(b"1")
    Recipe("one", {"one": one}).write(again)
    assert out.getvalue() == again.getvalue()


def test_a_folder_in_a_context_keeps_its_links_and_programs(tmp_path: Path) -> None:
    """As npm leaves them: a program that may be run, and the link that calls it."""
    one, folder, out = tmp_path / "one", tmp_path / "folder", io.BytesIO()
    one.write_bytes(b"1")
    folder.mkdir()
    (folder / "program").write_bytes(b"#!")
    (folder / "program").chmod(0o755)
    (folder / "link").symlink_to("program")
    Recipe("one", {"one": one}).write(out, {"modules": folder})
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        assert tar.getmember("modules/program").mode == 0o755
        assert tar.getmember("modules/link").linkname == "program"
        assert {(each.uid, each.mtime) for each in tar} == {(0, 0)}


def test_the_lock_file_is_found() -> None:
    assert "--hash=sha256:" in recipes.lock().read_text("utf-8")


def test_an_installation_without_recipes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_PACKAGE_FOLDER", tmp_path / "egress")
    with pytest.raises(UnsupportedError, match="no image recipes"):
        recipes.folder()


def test_an_installation_holds_them_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the wheel lays them out."""
    place = tmp_path / "egress/container"
    place.mkdir(parents=True)
    (place / "proxy.Dockerfile").touch()
    monkeypatch.setattr(recipes, "_PACKAGE_FOLDER", tmp_path / "egress")
    assert recipes.folder() == place
    with pytest.raises(UnsupportedError, match=r"no requirements\.lock"):
        recipes.lock()
    (place / "requirements.lock").touch()
    assert recipes.lock() == place / "requirements.lock"
    with pytest.raises(UnsupportedError, match="no chart"):
        recipes.chart()
    (place / "chart").mkdir()
    (place / "chart/Chart.yaml").touch()
    assert recipes.chart() == place / "chart"


def test_every_file_of_the_recipes_is_of_use_where_it_was_installed() -> None:
    """Or of a checkout alone: the page about it, and a script for whoever has one."""
    used = {
        name.removeprefix("container/")
        for each in (for_proxy(), for_sandbox(), recipes.for_agents(), for_door())
        for name in each.files
    }
    used |= recipes.deployment_files().keys() | {"README.md", "build"}
    found = {path.relative_to(recipes.folder()) for path in recipes.folder().rglob("*") if path.is_file()}
    assert {path.as_posix() for path in found if path.suffix != ".pyc"} <= used
