"""The runtime in memory keeps every promise, and takes programs of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egress.rules.compile.load import RuleText, load
from egress.rules.decide.policy import CANARY_VALUE_MARK
from egress.runtime.errors import SandboxExistsError
from egress.runtime.fake import FakeProxyClient, FakeRuntime, ProgramCall
from egress.runtime.protocol import Provisions, Runtime
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import PlantedCanary
from egress.runtime.spec import Command, Spec
from tests.runtime import planting_cases
from tests.unit.runtime.contract import CASES, Case, RuntimeBench


class InMemory:
    def __init__(self) -> None:
        self.gateway = FakeProxyClient()
        self.runtime: Runtime = FakeRuntime(self.gateway, images={"any"})

    def spec(self, name: str, **values: object) -> Spec:
        return Spec(name=name, image="any", **values)  # type: ignore[arg-type]


@pytest.fixture
def bench() -> Iterator[RuntimeBench]:
    bench = InMemory()
    yield bench
    bench.runtime.close()
    assert bench.gateway.admitted == {}


@pytest.mark.parametrize("promise", CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, bench: RuntimeBench) -> None:
    promise(bench)


class Planted(InMemory):
    """One whose proxy plants, each time with a runtime of its own."""

    def plant(self, *items: str) -> None:
        text = "version: 1\ncanaries:\n" + "".join(f"  {item}\n" for item in items)
        policy = load([RuleText("hosts.yaml", text)]).policy
        assert policy is not None
        self.gateway = FakeProxyClient(
            canaries=tuple(
                PlantedCanary(
                    each.name,
                    self.value("one", each.name),
                    each.env,
                    each.file,
                    each.text.replace(CANARY_VALUE_MARK, self.value("one", each.name)),
                )
                for each in policy.canaries
            )
        )
        self.runtime = FakeRuntime(self.gateway, images={"any"})

    def value(self, name: str, canary: str) -> str:
        return f"value-of-{canary}-in-{name}"


@pytest.mark.parametrize("promise", planting_cases.CASES, ids=lambda case: case.__name__)
def test_canaries_are_planted(promise: planting_cases.Case) -> None:
    promise(Planted())


def test_programs_of_a_test_do_what_processes_do() -> None:
    def count(call: ProgramCall) -> int:
        call.files.write(call.path("count"), str(len(call.read())).encode())
        call.complain(b"counted\n")
        return 7

    runtime = FakeRuntime(programs={"count": count})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    result = runtime.exec("one", Command(argv=("count",), input=b"12345", cwd="/tmp"))
    assert (result.exit_code, result.stderr_bytes) == (7, b"counted\n")
    assert runtime.files("one").read("/tmp/count") == b"5"


def test_time_passes_without_waiting() -> None:
    runtime = FakeRuntime(programs={"nap": lambda call: call.sleep(3600)})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    assert runtime.exec("one", Command(argv=("nap",))).duration == 3600
    assert runtime.exec("one", Command(argv=("nap",), timeout=10)).duration == 10


def test_a_mistake_in_a_program_reaches_the_test() -> None:
    runtime = FakeRuntime(programs={"broken": lambda call: 1 // len(call.argv[1:])})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    with pytest.raises(ZeroDivisionError):
        runtime.exec("one", Command(argv=("broken",)))


def test_a_program_waits_while_its_sandbox_is_paused() -> None:
    runtime = FakeRuntime()
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    process = runtime.spawn("one", Command(argv=("cat",)))
    runtime.pause("one")
    process.write(b"meanwhile")
    process.close_input()
    with pytest.raises(TimeoutError):
        process.wait(0.05)
    runtime.resume("one")
    assert process.wait(10).stdout_bytes == b"meanwhile"


def test_it_is_dressed_and_admitted_as_a_real_one() -> None:
    gateway = FakeProxyClient({"tracker": {"openai": "stand-in"}})

    def dress(admission: object, entrance: ProxyAddress) -> Provisions:
        files = {"/etc/egress/ca.pem": b"certificate"}
        return Provisions(files=files, overmounts={"/etc/ssl/x": "/etc/egress/ca.pem"}, variables={"A": "b"})

    runtime = FakeRuntime(gateway, provision=dress)
    runtime.create(Spec(name="one", image="any", profile="coding"))
    assert gateway.admitted == {"one": "coding"}
    with pytest.raises(SandboxExistsError):
        FakeRuntime(gateway).create(Spec(name="one", image="any"))
    runtime.start("one")
    assert runtime.exec("one", Command(argv=("cat", "/etc/ssl/x"))).stdout_bytes == b"certificate"
    assert "A=b\n" in runtime.exec("one", Command(argv=("env",))).text
    runtime.close()
    assert gateway.admitted == {}
