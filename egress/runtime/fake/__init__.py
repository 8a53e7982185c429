"""Sandboxes in memory, for tests: everything that `Runtime` promises, without an engine and without waiting.

Programs are functions. They get what a process gets (arguments, folder, environment, input, files) and do
what a process does (write, sleep, end with a status). Their time is their own: sleeping takes none, but
counts against a timeout as if it had. Whatever a real runtime refuses is refused here, with the same errors.

    runtime = FakeRuntime(programs={"greet": lambda call: call.write(b"hello") or 0})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    assert runtime.exec("one", Command(argv=("greet",))).text == "hello"

It isolates nothing, and must not be used for anything but tests.
"""

from __future__ import annotations

from egress.runtime.fake.memory_files import MemoryFiles
from egress.runtime.fake.process import FakeProcess, Program, ProgramCall
from egress.runtime.fake.proxy_client import FakeProxyClient
from egress.runtime.fake.runtime import FakeRuntime

__all__ = ["FakeProcess", "FakeProxyClient", "FakeRuntime", "MemoryFiles", "Program", "ProgramCall"]
