"""Files over the API in a container whose image has few programs."""

from __future__ import annotations

import os

from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from tests.runtime.docker_lab import DockerLab
from tests.sandbox.remote_files import served_files

DATA = os.urandom(3_000_000)


def test_a_file_goes_in_and_comes_out_whole_and_in_parts(house: DockerLab) -> None:
    fleet = Fleet(house.runtime, about=FleetInfo(kind="docker"), tick=None)
    with served_files(fleet, house.image) as remote:
        assert remote.ask("PUT", "file", DATA, path="deep/data", mode="640").status == 204
        assert remote.ask("GET", "file", path="deep/data").body == DATA
        part = remote.ask("GET", "file", headers={"Range": "bytes=-1000000"}, path="deep/data")
        assert (part.status, part.body) == (206, DATA[-1_000_000:])
        entries = remote.ask("GET", "dir", path="deep").body["entries"]
        assert [(each["name"], each["size"], each["mode"]) for each in entries] == [
            ("data", len(DATA), "640")
        ]
        denied = remote.ask("PUT", "file", DATA, path="/etc/passwd")
        assert (denied.status, denied.body["type"]) == (403, "path.denied")
