"""The logs of a gateway's pods: the command that runs in them is the real one, and the API server is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from egress.audit.log_collection import LogCollection
from egress.cluster.api_server import ClusterApi
from egress.errors import ContentError, UnreadableError
from egress.review import replica_log_download
from egress.review.replica_log_download import ARCHIVE_COMMAND, ReplicaLogs
from tests.unit.audit.chained_log import sound_log
from tests.unit.audit.sample import KEY
from tests.unit.audit.test_log_collection import write_replica


class LocalCommand:
    """A command on this machine, with the streams of one in a pod."""

    def __init__(self, words: Sequence[str], piece: int) -> None:
        self._piece = piece
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input, self._output, self._errors = (
            self._process.stdin,
            self._process.stdout,
            self._process.stderr,
        )
        self._has_complained = False

    def write(self, data: bytes) -> None:
        self._input.write(data)

    def close_input(self) -> None:
        self._input.close()

    def read(self) -> tuple[str, bytes] | None:
        if data := self._output.read(self._piece):
            return "stdout", data
        if not self._has_complained:
            self._has_complained = True
            return "stderr", self._errors.read()
        return None

    def abort(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.wait()
        self._output.close()
        self._errors.close()


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReplicaLogs:
    """Two pods that run, one that does not, and the folders of their logs as `tmp_path/NAME`."""
    for number in range(2):
        write_replica(tmp_path / f"gateway-{number}", f"gateway-{number}", number + 1)

    def call(_api: ClusterApi, method: str, path: str) -> Mapping[str, object]:
        assert (method, path.partition("?")[0]) == ("GET", "/api/v1/namespaces/agents/pods")
        phases = {"gateway-1": "Running", "gateway-0": "Running", "gateway-2": "Pending"}
        return {
            "items": [
                {"metadata": {"name": name}, "status": {"phase": phase}} for name, phase in phases.items()
            ]
        }

    def open_exec(
        _api: ClusterApi, pod: str, container: str, words: Sequence[str], **_: bool
    ) -> LocalCommand:
        assert (container, tuple(words)) == ("proxy", ARCHIVE_COMMAND)
        folder = ("--dir", str(tmp_path / pod))
        return LocalCommand((sys.executable, "-m", *words, *folder), piece=100)

    monkeypatch.setattr(replica_log_download, "call", call)
    monkeypatch.setattr(replica_log_download, "open_exec", open_exec)
    return ReplicaLogs(ClusterApi("127.0.0.1", 1, "agents", tmp_path, tmp_path))


def test_the_logs_of_all_pods_that_run_are_one_log(gateway: ReplicaLogs, tmp_path: Path) -> None:
    collection = LogCollection(tmp_path / "out")
    taken = gateway.take_all(collection)
    collection.finish(KEY)
    assert list(taken) == ["gateway-0", "gateway-1"]
    assert all(taken.values())
    lines = sound_log(tmp_path / "out").lines
    assert lines == sum(sound_log(tmp_path / name).lines for name in taken)
    assert gateway.take_all(LogCollection(tmp_path / "out")) == {"gateway-0": 0, "gateway-1": 0}


def test_an_error_in_a_pod_is_told(gateway: ReplicaLogs, tmp_path: Path) -> None:
    (tmp_path / "gateway-0/audit-000001.jsonl").unlink()
    (tmp_path / "gateway-0/audit-000001.jsonl").mkdir()
    (tmp_path / "gateway-0/head").unlink()
    (tmp_path / "gateway-0/head").mkdir()
    with pytest.raises(ContentError, match="the log of gateway-0 cannot be copied: error: the audit log in"):
        gateway.take_all(LogCollection(tmp_path / "out"))


def test_without_a_pod_that_runs_there_is_no_log(
    gateway: ReplicaLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer, error in (({}, UnreadableError), ({"items": [2]}, ContentError)):
        monkeypatch.setattr(replica_log_download, "call", lambda *_, answer=answer: answer)
        with pytest.raises(error):
            gateway.take_all(LogCollection(tmp_path / "out"))
