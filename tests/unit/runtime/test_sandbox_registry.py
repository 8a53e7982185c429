"""Who is there: names that are made once, and what is done when a proxy returns."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from egress.runtime.door.controller import DoorController
from egress.runtime.errors import (
    GatewayError,
    GatewayRefusedError,
    SandboxExistsError,
    SandboxNotFoundError,
)
from egress.runtime.fake import FakeProxyClient
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.protocol import Provisions
from egress.runtime.proxy_client import Admission, PlantedCanary, SandboxListener
from egress.runtime.sandbox_registry import SandboxRegistry
from egress.runtime.spec import NO_VALUES, Info, Spec


@dataclass
class Doors:
    listeners: tuple[SandboxListener, ...] = ()


@dataclass
class One:
    """A sandbox of nothing but what a proxy cares for."""

    spec: Spec
    admission: Admission
    mounted_files: MountedFiles
    provisions: Provisions
    door_controller: DoorController


class Proxy(FakeProxyClient):
    """Says what it is told, where it is told something."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.fails: Exception | None = None

    def admit(
        self,
        name: str,
        profile: str | None = None,
        seed: str = "",
        *,
        parameters: Mapping[str, str] = NO_VALUES,
    ) -> Admission:
        self.said.append(f"admit {name} {seed}")
        return super().admit(name, profile, seed, parameters=parameters)

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        self.said.append(f"hand over {name}")
        if self.fails is not None:
            raise self.fails

    def dismiss(self, name: str) -> None:
        self.said.append(f"dismiss {name}")
        super().dismiss(name)

    def end(self) -> None:
        """Another one comes in its place, and knows nobody."""
        self.admitted.clear()
        self.said.clear()


def renewed(one: One, admission: Admission) -> tuple[SandboxListener, ...]:
    one.provisions = Provisions(
        folder="/etc/egress", files={"/etc/egress/ca.pem": admission.authority.encode()}
    )
    one.mounted_files.renew(one.provisions)
    return one.door_controller.listeners


class Bench:
    def __init__(self, folder: Path) -> None:
        self.proxy = Proxy()
        self.register = SandboxRegistry[One](self.proxy, renewed)
        self._folder = folder

    def made(self, name: str, **labels: str) -> One:
        admission = self.proxy.admit(name)
        planted = Admission(
            name, admission.authority, canaries=(PlantedCanary("bait", "value"),), seed="seed"
        )
        laid = MountedFiles(self._folder / name, {})
        return One(
            Spec(name=name, image="any", labels=labels),
            planted,
            laid,
            Provisions(folder="/etc"),
            cast("DoorController", Doors()),
        )

    def add(self, name: str, **labels: str) -> One:
        self.register.add(name, lambda: self.made(name, **labels))
        return self.register.get(name)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_name_is_taken_from_its_making_to_its_end(bench: Bench) -> None:
    def twice() -> One:
        with pytest.raises(SandboxExistsError, match="sandbox one exists already"):
            bench.add("one")
        return bench.made("one")

    bench.register.add("one", twice)
    with pytest.raises(SandboxExistsError):
        bench.add("one")
    with bench.register.removing("one") as going:
        assert going is not None
        with pytest.raises(SandboxNotFoundError):
            bench.register.get("one")
        with pytest.raises(SandboxExistsError):
            bench.add("one")
    bench.proxy.end()
    bench.add("one")


def test_one_that_could_not_be_made_or_taken_away_keeps_no_name(bench: Bench) -> None:
    def fails() -> One:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        bench.register.add("one", fails)
    assert bench.register.find("one") is None
    bench.add("one")
    with pytest.raises(OSError, match="no room"), bench.register.removing("one"):
        fails()
    bench.proxy.end()
    bench.add("one")


def test_nobody_leaves_twice(bench: Bench) -> None:
    bench.add("one")
    with bench.register.removing("one") as first, bench.register.removing("one") as second:
        assert first is not None
        assert second is None


def test_those_with_all_of_the_labels_are_told_by_name(bench: Bench) -> None:
    for name, labels in (("b", {"of": "me"}), ("a", {"of": "me", "for": "tests"}), ("c", {})):
        bench.add(name, **labels)

    def info(name: str) -> Info:
        if name == "b":
            raise SandboxNotFoundError("gone meanwhile")
        return Info(name=name, image="any", state="running")

    assert bench.register.names == ["a", "b", "c"]
    assert [each.name for each in bench.register.list_infos({}, info)] == ["a", "c"]
    assert [each.name for each in bench.register.list_infos({"of": "me"}, info)] == ["a"]
    assert bench.register.list_infos({"of": "others"}, info) == ()


def test_a_proxy_that_returns_admits_each_again_with_what_was_planted(bench: Bench, tmp_path: Path) -> None:
    one = bench.add("one")
    bench.proxy.end()
    bench.register.readmit_all()
    assert bench.proxy.said == ["admit one seed", "hand over one"]
    # The new authority lies there before anybody answers with it.
    assert b"fake one" in (tmp_path / "one" / "provisions" / "ca.pem").read_bytes()
    assert one.provisions.files
    assert one.admission.canaries == (PlantedCanary("bait", "value"),)


def test_one_that_the_new_proxy_does_not_take_is_dismissed_and_the_others_go_on(bench: Bench) -> None:
    bench.add("one")
    bench.add("two")
    bench.proxy.end()
    bench.proxy.fails = GatewayRefusedError("not this one")
    bench.register.readmit_all()
    for name, said in (("one", bench.proxy.said[:3]), ("two", bench.proxy.said[3:])):
        assert said == [f"admit {name} seed", f"hand over {name}", f"dismiss {name}"]


def test_one_that_it_knows_already_stays_as_it_is(bench: Bench) -> None:
    one = bench.add("one")
    bench.proxy.said.clear()
    bench.register.readmit_all()
    assert bench.proxy.said == ["admit one seed"]
    assert not one.provisions.files


def test_a_proxy_that_is_gone_again_is_said(bench: Bench) -> None:
    bench.add("one")
    bench.proxy.end()
    bench.proxy.fails = GatewayError("gone again")
    with pytest.raises(GatewayError, match="gone again"):
        bench.register.readmit_all()
    assert bench.proxy.said[-1] == "dismiss one"


def test_one_that_was_made_while_a_proxy_returned_is_admitted_by_it(bench: Bench) -> None:
    """The return saw only those that were there."""

    def meanwhile() -> One:
        made = bench.made("one")
        bench.proxy.end()
        thread = threading.Thread(target=bench.register.readmit_all)
        thread.start()
        thread.join()
        assert not bench.proxy.said
        return made

    bench.register.add("one", meanwhile)
    assert bench.proxy.said == ["admit one seed", "hand over one"]
