"""Sandboxes in memory, for tests: everything that `Runtime` promises, without an engine or waiting.

Programs are functions. They get what a process gets (arguments, folder, environment, input, files) and do
what a process does (write, sleep, exit with a status). Their clock is simulated: a sleep takes no time, but
counts against a timeout. The fake refuses what real runtimes refuse, with the same errors.

    runtime = FakeRuntime(programs={"greet": lambda call: call.write(b"hello") or 0})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    assert runtime.exec("one", Command(argv=("greet",))).text == "hello"

The fake isolates nothing, and must be used for tests only.
"""

from __future__ import annotations

from egress.runtime.fake.memory_files import MemoryFiles
from egress.runtime.fake.process import FakeProcess, Program, ProgramCall
from egress.runtime.fake.proxy_client import FakeProxyClient
from egress.runtime.fake.runtime import FakeRuntime

__all__ = ["FakeProcess", "FakeProxyClient", "FakeRuntime", "MemoryFiles", "Program", "ProgramCall"]
