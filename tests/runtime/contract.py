"""What every runtime with real walls promises, as tests that run in a house of each kind.

What the runtime in memory promises as well is in tests/unit/runtime/contract.py.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from egress.runtime.errors import GatewayError, MountError, SandboxStateError
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, Mount, SandboxLimits
from tests.proxy.serve_process import until
from tests.runtime.sandbox_lab import NAME, SandboxLab
from tests.unit.runtime.contract import RuntimeBench

_GREEDY = """
import os, signal
try:
    while os.fork():
        pass
    signal.pause()
except OSError:
    print("no more", flush=True)
    signal.pause()
"""


class Walled:
    """The tests; `bench` sees that nothing is left behind."""

    def test_a_sandbox_that_was_stopped_has_its_network_when_it_is_started(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        room = house.room("one")
        house.runtime.stop("one")
        house.runtime.start("one")
        assert room.get("/x").check().stdout_bytes == b"hello from outside\n"

    def test_nothing_but_its_folder_can_be_written_where_it_is_read_only(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        room = house.room("one", read_only=True)
        assert (
            room.sh("echo x > /workspace/a && echo x > /tmp/a && cat /workspace/a /tmp/a").stdout_bytes
            == b"x\nx\n"
        )
        assert room.sh("echo x > /home/sandbox/a").exit_code
        assert room.sh("grep ' /tmp ' /proc/mounts").text.count("nosuid")

    def test_what_it_may_use_up_is_bounded(self, house: SandboxLab[Any], bench: RuntimeBench) -> None:
        room = house.room("one", limits=SandboxLimits(memory_mib=64, processes=20, cpus=0.5))
        is_full = threading.Event()
        greedy = Command(argv=(house.python, "-c", _GREEDY))
        house.runtime.spawn("one", greedy, Output(stdout=lambda _: is_full.set()))
        assert is_full.wait(30)
        with pytest.raises(SandboxStateError, match="cannot start a command"):
            room.run("true")
        house.runtime.stop("one")
        house.runtime.start("one")
        hungry = room.run(house.python, "-c", "x = bytearray(200_000_000); print(len(x))")
        assert hungry.exit_code in house.without_memory
        assert hungry.stdout_bytes == b""
        assert room.run("true").exit_code == 0

    def test_what_no_sandbox_gets_is_refused_before_anything_is_made(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        """S-49, S-51: sockets of engines, and the folders of the proxy."""
        ours = (house.served.runtime, house.served.state, house.home)
        for source in ("/var/run", "/", "/proc", *map(str, ours)):
            mount = Mount(source=Path(source), target="/inside")
            with pytest.raises(MountError):
                house.runtime.create(house.spec("one", mounts=(mount,)))
        assert house.runtime.list() == ()

    def test_the_whole_group_of_a_command_is_ended(self, house: SandboxLab[Any], bench: RuntimeBench) -> None:
        """Also what ignores the polite end, and what the command has left behind."""
        room = house.room("one")
        stubborn = "trap '' TERM; (trap '' TERM; sleep 300) & sleep 300; sleep 300"
        result = room.sh(stubborn, timeout=0.5, grace=0.2)
        assert (result.exit_code, result.timed_out) == (124, True)
        # A process that was killed may be seen for a moment.
        until(
            lambda: b"sleep\x00300" not in room.sh("cat /proc/[0-9]*/cmdline").stdout_bytes, "it to be gone"
        )

    def test_no_name_hides_a_process_that_ignores_its_end(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        """The kernel shows the name of a process as it is, with line ends and brackets."""
        room = house.room("one")
        disguise = (
            "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            "open('/proc/self/comm', 'w').write('a\\nb) Z 1'); signal.pause()"
        )
        room.sh('"$@" & exec sleep 300', house.python, "-c", disguise, timeout=1, grace=0.2)
        until(lambda: b"SIG_IGN" not in room.sh("cat /proc/[0-9]*/cmdline").stdout_bytes, "it to be gone")

    def test_a_command_is_ended_politely_first(self, house: SandboxLab[Any], bench: RuntimeBench) -> None:
        room = house.room("one")
        result = room.sh("trap 'echo cleaned; exit 3' TERM; echo ready; sleep 300 & wait", timeout=1)
        assert (result.exit_code, result.stdout_bytes) == (124, b"ready\ncleaned\n")

    def test_a_command_that_leaves_something_running_settles(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        room = house.room("one")
        result = room.sh("sleep 300 & echo started", timeout=60)
        assert (result.exit_code, result.stdout_bytes) == (0, b"started\n")
        # Also where that writes for ever.
        result = room.sh("yes & echo started; sleep 0.2", timeout=60, most_output=100)
        assert result.exit_code == 0

    def test_a_command_that_closes_its_streams_is_waited_for(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        assert house.room("one").sh("exec >&- 2>&- <&-; sleep 0.3; exit 9").exit_code == 9

    def test_output_comes_while_a_command_runs(self, house: SandboxLab[Any], bench: RuntimeBench) -> None:
        house.room("one")
        came = threading.Event()
        output = Output(stdout=lambda data: came.set() if b"first" in data else None)
        process = house.runtime.spawn(
            "one", Command(argv=("sh", "-c", "echo first; read x; echo $x")), output
        )
        assert came.wait(30)
        process.write(b"second\n")
        assert process.wait(30).stdout_bytes == b"first\nsecond\n"

    def test_a_sandbox_that_cannot_be_made_leaves_nothing(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        """The proxy has no profiles, so this one is refused there; and this outfit comes too late."""
        with pytest.raises(GatewayError, match="profile"):
            house.runtime.create(house.spec("one", profile="unknown"))
        dress, house.runtime._provisioner = house.runtime._provisioner, lambda *_: 1 // 0
        try:
            with pytest.raises(ZeroDivisionError):
                house.runtime.create(house.spec("one"))
        finally:
            house.runtime._provisioner = dress

    def test_new_ports_of_the_rules_lead_to_the_proxy(
        self, house: SandboxLab[Any], bench: RuntimeBench
    ) -> None:
        room = house.room("one")
        ask = ("curl", "-s", "--max-time", "5", "--noproxy", "*", f"https://{NAME}:8443/")
        assert room.run(*ask).exit_code == 7
        house.runtime.open_ports("one", (8443,))
        until(lambda: room.run(*ask).exit_code != 7, "the port to be open")
