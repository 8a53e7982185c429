"""What decides over a sandbox is not lent to it, nor what it must not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet.mount_policy import MountPolicy
from egress.runtime.errors import GatewayError, MountError
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Mount, Spec
from egress.unix.http_connection import JsonAnswer
from tests.unit.secrets.secret_samples import script

RULES = """
version: 1
secrets:
  one: {{from: "file:{secret}", hosts: [api.example.test]}}
hosts:
  api.example.test: {{allow: all, inject: [{{bearer: one}}]}}
"""


class Place:
    """A folder to work in, rules beside it, and a secret in a third."""

    def __init__(self, top: Path) -> None:
        self.repo, self.conf, self.keys = (top / name for name in ("repo", "conf", "keys"))
        for each in (self.repo, self.conf, self.keys, self.repo / "src"):
            each.mkdir()
        self.path, self.code = [Path("/usr/bin")], list[Path]()
        self.secret = self.keys / "token"
        self.secret.write_text("sesame-open-sesame-42")
        self.files = [str(self.write(self.conf / "hosts.yaml"))]

    def write(self, path: Path) -> Path:
        path.write_text(RULES.format(secret=self.secret))
        return path

    def lend(
        self, source: Path, *, writable: bool = True, image: str = "any", config: Path | None = None
    ) -> None:
        mount = Mount(source=source, target="/workspace", writable=writable)
        spec = Spec(name="one", image=image, mounts=(mount,))
        answer = JsonAnswer(200, {"rules": {"files": self.files}})
        environ = {"HOME": str(self.keys), "PATH": ":".join(map(str, self.path))}
        MountPolicy(lambda: answer, self.repo, environ, config, self.code).check(spec)

    def run(self, *words: str) -> None:
        """Let a program give the secret."""
        command = json.dumps({"command": words})
        (self.conf / "hosts.yaml").write_text(RULES.format(secret="x").replace('"file:x"', command))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def test_a_folder_beside_the_rules_is_lent(place: Place) -> None:
    """The good twin."""
    place.lend(place.repo)
    place.lend(place.repo / "src")
    place.lend(place.conf, writable=False)


def test_rules_are_not_to_be_written_by_whom_they_bind(place: Place) -> None:
    """S-44, S-51: a sandbox replaced its rules where it worked, and they held two seconds later."""
    place.files = ["hosts.yaml"]
    place.write(place.repo / "hosts.yaml")
    for source in (place.repo, place.repo / "hosts.yaml"):
        with pytest.raises(MountError, match=r"hosts\.yaml"):
            place.lend(source)
    place.lend(place.repo / "src")
    place.lend(place.repo, writable=False)


def test_a_link_on_the_way_to_the_rules_is_one_of_them(place: Place) -> None:
    """Whoever writes it decides where it leads."""
    (place.repo / "hosts.yaml").symlink_to(place.conf / "hosts.yaml")
    place.files = ["hosts.yaml"]
    for source in (place.repo, place.conf):
        with pytest.raises(MountError):
            place.lend(source)


def test_what_the_next_proxy_would_take_for_its_users_own_rules_is_not_written(place: Place) -> None:
    """S-44: this one runs by others, and there need be nothing yet where they are looked for."""
    home = place.repo / "home"
    config = home / ".config/egress"
    home.mkdir()
    place.lend(home)
    with pytest.raises(MountError, match="folder of your own rules"):
        place.lend(home, config=config)
    config.mkdir(parents=True)
    for source in (place.repo, home, config.parent, config):
        with pytest.raises(MountError, match="folder of your own rules"):
            place.lend(source, config=config)
    (config / "presets").mkdir()
    with pytest.raises(MountError, match=r"lies in your own rules' folder"):
        place.lend(config / "presets", config=config)
    place.lend(config, writable=False, config=config)
    place.lend(place.repo / "src", config=config)


def test_a_link_on_the_way_to_them_is_not_written_either(place: Place) -> None:
    (place.repo / ".config").symlink_to(place.conf)
    (place.conf / "egress").mkdir()
    with pytest.raises(MountError, match="your own rules"):
        place.lend(place.repo, config=place.repo / ".config" / "egress")


def test_a_folder_on_the_way_to_the_rules_may_be_a_link(place: Place) -> None:
    """Who puts another one in its place has rules of his own."""
    (place.repo / "rules").symlink_to("../conf")
    place.files = ["src/../rules/hosts.yaml"]
    for source in (place.repo, place.conf):
        with pytest.raises(MountError, match=r"hosts\.yaml"):
            place.lend(source)
    place.lend(place.repo / "src")


def test_links_that_lead_in_a_circle_lead_nowhere(place: Place) -> None:
    (place.repo / "circle").symlink_to("circle")
    place.lend(place.repo / "src", config=place.repo / "circle" / "egress")
    with pytest.raises(MountError, match="your own rules"):
        place.lend(place.repo, config=place.repo / "circle" / "egress")


@pytest.mark.parametrize("writable", [False, True])
def test_a_file_that_is_a_secret_is_not_even_read(place: Place, writable: bool) -> None:
    with pytest.raises(MountError, match="is a secret") as raised:
        place.lend(place.keys, writable=writable)
    assert "sesame" not in str(raised.value)


def test_a_secret_below_the_home_of_its_user_is_found(place: Place) -> None:
    path = place.conf / "hosts.yaml"
    path.write_text(path.read_text().replace(str(place.secret), "~/token"))
    with pytest.raises(MountError, match="is a secret"):
        place.lend(place.keys, writable=False)


def test_a_root_folder_holds_no_secret_either(place: Place) -> None:
    with pytest.raises(MountError, match="is a secret"):
        place.lend(place.repo, image=str(place.keys))


SPELLED = {
    "whole": lambda place: ["sh", f"{place.keys}/bin/tok"],
    "in-the-home": lambda _: ["~/bin/tok"],
    "from-the-home": lambda _: ["/bin/sh", "bin/tok"],
    "by-name": lambda _: ["tok"],
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_a_program_that_gets_a_secret_is_not_written(
    place: Place, spelled: Callable[[Place], list[str]]
) -> None:
    """S-44: a sandbox wrote one, and the proxy ran it. Words are read as the proxy reads them."""
    folder = place.keys / "bin"
    folder.mkdir()
    script(folder, "echo", "tok")
    place.path.append(folder)
    place.run(*spelled(place))
    for source in (place.keys, folder, folder / "tok"):
        with pytest.raises(MountError):
            place.lend(source)
        place.lend(source, writable=False)
    place.lend(place.repo)


def test_a_program_behind_a_link_is_not_written(place: Place) -> None:
    folder = place.keys / "bin"
    folder.mkdir()
    (folder / "tok").symlink_to(script(place.repo, "echo", "tok"))
    place.path.append(folder)
    for words in (["tok"], ["~/bin/tok"], ["/bin/sh", "bin/tok"]):
        place.run(*words)
        with pytest.raises(MountError, match="run by the proxy"):
            place.lend(place.repo)


def test_no_folder_is_written_that_programs_are_searched_in(place: Place) -> None:
    """Whether or not it is there yet, and before or behind what is found: that may run others by name."""
    script(place.keys, "echo", "tok")
    venv = place.repo / ".venv/bin"
    for path in ([venv, place.keys], [place.keys, venv]):
        place.path = path
        place.run("tok")
        with pytest.raises(MountError, match=r"\.venv/bin in it is on PATH") as raised:
            place.lend(place.repo)
        assert "PATH" in raised.value.hint
        place.run("/usr/bin/env")
        with pytest.raises(MountError, match="on PATH"):
            place.lend(place.repo)
        place.lend(place.repo / "src")
        place.lend(place.repo, writable=False)
    place.write(place.conf / "hosts.yaml")
    place.lend(place.repo)


def test_what_lies_in_a_folder_that_is_run_is_not_written(place: Place) -> None:
    place.run("python3", str(place.repo))
    with pytest.raises(MountError, match="above it is run by the proxy"):
        place.lend(place.repo / "src")


def test_a_program_that_is_not_there_yet_is_not_laid_there(place: Place) -> None:
    place.run(f"{place.repo}/tok")
    with pytest.raises(MountError, match="run by the proxy"):
        place.lend(place.repo)


def test_a_word_that_is_no_path_closes_nothing(place: Place) -> None:
    """`pass show work/api` is no folder in the home of its user."""
    (place.keys / "work/api").mkdir(parents=True)
    place.run("pass", "show", "work/api", "", "/")
    place.lend(place.keys / "work")


def test_code_of_egress_is_not_written(place: Place) -> None:
    """S-44: what a sandbox wrote there ran as its user at the next start."""
    place.code = [place.repo / ".venv"]
    (place.repo / ".venv/lib").mkdir(parents=True)
    for source in (place.repo, place.repo / ".venv", place.repo / ".venv/lib"):
        with pytest.raises(MountError, match="code that Egress runs") as raised:
            place.lend(source)
        assert "read-only" in raised.value.hint
        place.lend(source, writable=False)
    place.lend(place.repo / "src")


def test_nothing_is_lent_where_nobody_says_what_the_rules_are(place: Place) -> None:
    place.files = []
    with pytest.raises(GatewayError):
        place.lend(place.repo)
    place.files = ["hosts.yaml"]
    (place.repo / "hosts.yaml").write_text("version: [")
    with pytest.raises(MountError, match="rules have errors"):
        place.lend(place.repo / "src")


def test_a_fleet_asks_before_anything_is_made(place: Place) -> None:
    place.files = ["hosts.yaml"]
    place.write(place.repo / "hosts.yaml")
    lending = MountPolicy(lambda: JsonAnswer(200, {"rules": {"files": place.files}}), place.repo, {})
    fleet = Fleet(FakeRuntime(images={"any"}), check_mounts=lending.check, tick=None)
    spec = Spec(
        name="one", image="any", mounts=(Mount(source=place.repo, target="/workspace", writable=True),)
    )
    with pytest.raises(MountError):
        fleet.create(spec)
    with pytest.raises(MountError):
        fleet.prepare(spec, 1)
    assert fleet.list() == ()
    fleet.create(Spec(name="one", image="any"))
    fleet.close()
