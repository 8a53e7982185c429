"""The ledger under any interleaving, and the readers of streams under any bytes."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from egress.budgets.budget_desk import BudgetDesk, Reservation
from egress.budgets.call_plan import plan_call
from egress.budgets.ledger import Amounts, JournalEntry, Ledger
from egress.errors import WireError
from egress.inspect.llm.answer_meter import MeteredAnswer
from egress.inspect.llm.event_stream import EventStreamReader, event_message
from egress.inspect.llm.json_scan import JsonFieldScan
from egress.inspect.llm.sse import SseReader
from egress.inspect.llm.usage import LLM_APIS, Usage, read_usage
from egress.inspect.strict_json import JsonValue
from egress.rules.decide.budget_spec import DAY, HOUR, TOTAL, BudgetLimit, BudgetSpec
from egress.rules.decide.llm_predicate import LlmTerms
from egress.rules.decide.policy import Policy
from egress.types import Identity
from tests.unit.budgets.specs import PLACE, TABLE, USD, call

NOW = 1_000_000 * 60


@dataclass(frozen=True)
class Begin:
    sandbox: Literal["a", "b"]
    model: Literal["claude-haiku-4", "claude-opus-4"]
    sent: int
    output: int


@dataclass(frozen=True)
class End:
    which: int
    used: int
    """Percent of what it reserved in tokens."""
    is_sent: bool
    has_usage: bool


@dataclass(frozen=True)
class Wait:
    seconds: int


@dataclass(frozen=True)
class Restart:
    pass


steps = st.lists(
    st.one_of(
        st.builds(
            Begin,
            st.sampled_from(["a", "b"]),
            st.sampled_from(["claude-haiku-4", "claude-opus-4"]),
            st.integers(0, 50_000),
            st.integers(1, 100_000),
        ),
        st.builds(End, st.integers(0, 100), st.integers(0, 100), st.booleans(), st.booleans()),
        st.builds(Wait, st.integers(0, 2 * DAY)),
        st.just(Restart()),
    ),
    max_size=40,
)
limits = st.lists(
    st.one_of(
        st.builds(BudgetLimit, st.just("usd"), st.integers(1, 20 * USD), st.sampled_from([HOUR, DAY, TOTAL])),
        st.builds(
            BudgetLimit, st.just("tokens"), st.integers(1, 500_000), st.sampled_from([HOUR, DAY, TOTAL])
        ),
    ),
    min_size=1,
    max_size=3,
)


@dataclass
class World:
    """A proxy with its journal, and everything that was ever charged."""

    budget: BudgetSpec
    journal: list[JournalEntry] = field(default_factory=list)
    charged: list[tuple[int, str, Amounts]] = field(default_factory=list)
    now: int = NOW
    running: list[tuple[str, Reservation]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.desk = BudgetDesk(Ledger(self.journal.append), lambda: self.now)

    def restart(self) -> None:
        ledger = Ledger()
        for entry in self.journal:
            ledger.apply(entry)
        ledger.charge_unsettled(self.now)
        self.journal = list(ledger.snapshot(self.now))
        ledger.journal = self.journal.append
        self.desk = BudgetDesk(ledger, lambda: self.now)
        self.charged += [(self.now, sandbox, taken.amounts) for sandbox, taken in self.running]
        self.running = []

    def take(self, step: Begin | End | Wait | Restart, policy: Policy, terms: LlmTerms) -> None:
        if isinstance(step, Begin):
            plan = plan_call(terms, call(step.model, step.sent, step.output))
            taken = self.desk.reserve(policy, Identity(step.sandbox), (), terms, plan)
            if isinstance(taken, Reservation):
                self.running.append((step.sandbox, taken))
        elif isinstance(step, End):
            self.end(step)
        elif isinstance(step, Wait):
            self.now += step.seconds
        else:
            self.restart()

    def end(self, step: End) -> None:
        if not self.running:
            return
        sandbox, taken = self.running.pop(step.which % len(self.running))
        used = Usage(
            input=taken.plan.call.input_tokens * step.used // 100,
            output=taken.plan.output * step.used // 100,
            model=taken.plan.call.models[0],
        )
        answer = MeteredAnswer(200, used if step.has_usage else None, is_whole=True)
        facts = self.desk.settle(taken, answer, is_sent=step.is_sent)
        charged = Amounts(int(facts["llm_cost"]), int(facts["llm_charged"]))
        assert charged.tokens <= taken.amounts.tokens
        assert charged.micro_cents <= taken.amounts.micro_cents
        self.charged.append((self.now, sandbox, charged))

    def spent(self, limit: BudgetLimit, sandbox: str) -> int:
        begin = self.now - limit.window if limit.window else 0
        amounts = [each for at, who, each in self.charged if at > begin and who == sandbox]
        return sum(each.of(limit.unit) for each in amounts)


@given(limits, steps, st.booleans())
def test_vector_25_no_window_is_exceeded_and_the_records_add_up(
    bounds: list[BudgetLimit],
    steps: list[Begin | End | Wait | Restart],
    clamps: bool,
) -> None:
    world = World(BudgetSpec("agents", PLACE, tuple(bounds)))
    policy = Policy(budgets={"agents": world.budget}, prices=TABLE)
    terms = LlmTerms("anthropic", max_output=100_000, clamps=clamps, budgets=("agents",))
    for step in steps:
        world.take(step, policy, terms)
        for limit in bounds:
            for sandbox in ("a", "b"):
                # Running calls count in full, so nothing that ends can reach over the limit later.
                held = sum(each.amounts.of(limit.unit) for who, each in world.running if who == sandbox)
                assert world.spent(limit, sandbox) + held <= limit.amount
    for state in world.desk.ledger.states([world.budget], world.now):
        assert state.spent >= world.spent(state.limit, state.scope)
        if state.limit.window == TOTAL:
            assert state.spent == world.spent(state.limit, state.scope)


pieces = st.lists(st.integers(0, 400), max_size=6)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({min(each, len(data)) for each in at} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(marks)]


lines = st.lists(
    st.sampled_from(
        [b"data: 1", b"data:", b"data", b"event: x", b": c", b"", b"", b"id: 3", b"\xff", b"data: a:b"]
    ),
    max_size=20,
)


@given(lines, st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=20, max_size=20), pieces)
def test_events_are_those_of_the_standard_however_they_are_cut(
    texts: list[bytes], ends: list[bytes], at: list[int]
) -> None:
    stream = b"".join(text + end for text, end in zip(texts, ends, strict=False))
    reader = SseReader()
    found = [event for piece in cut(stream, at) for event in reader.feed(piece)]
    last = reader.end()
    found += [] if last is None else [last]
    assert b"".join(event.raw for event in found) == stream
    plain = re.sub(rb"\r\n|\r", b"\n", stream)
    wanted = [
        b"\n".join(
            line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.split(b":")[0] == b"data"
        )
        for block in re.split(rb"\n\n", plain)
    ]
    assert [event.data for event in found if event.data] == [data for data in wanted if data]


@given(st.binary(max_size=200), pieces)
def test_bytes_that_are_no_event_stream_raise_or_wait(data: bytes, at: list[int]) -> None:
    def read(parts: list[bytes]) -> object:
        reader = EventStreamReader()
        try:
            found = [message for part in parts for message in reader.feed(part)]
            reader.end()
        except WireError:
            return WireError
        return found

    assert read(cut(data, at)) == read([data])
    good = event_message("metadata", data)
    assert read(cut(good, at)) == read([good]) != WireError


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**15) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=6) | st.just("usage"), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(st.text(max_size=6) | st.just("usage"), json_values, max_size=6), pieces, st.booleans()
)
def test_the_scan_finds_what_a_whole_reader_finds(
    value: dict[str, object], at: list[int], is_ascii: bool
) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii, indent=1 if is_ascii else None).encode(
        "utf-8", "surrogatepass"
    )
    found: list[tuple[str, JsonValue]] = []
    scan = JsonFieldScan(frozenset({"usage"}), lambda name, each: found.append((name, each)))
    for piece in cut(data, at):
        scan.feed(piece)
    wanted = value.get("usage")
    assert found == ([] if wanted is None else [("usage", wanted)])


@given(st.binary(max_size=120), pieces)
def test_the_scan_takes_any_bytes_alike(data: bytes, at: list[int]) -> None:
    def scanned(parts: list[bytes]) -> list[tuple[str, JsonValue]]:
        found: list[tuple[str, JsonValue]] = []
        scan = JsonFieldScan(frozenset({"usage"}), lambda name, each: found.append((name, each)))
        for part in parts:
            scan.feed(part)
        return found

    assert scanned(cut(b'{"usage":' + data, at)) == scanned([b'{"usage":' + data])


@given(st.sampled_from(LLM_APIS), st.dictionaries(st.text(max_size=6), json_values))
def test_no_usage_of_any_shape_raises_or_is_negative(api: str, raw: dict[str, JsonValue]) -> None:
    usage = read_usage(next(each for each in LLM_APIS if each == api), raw)
    assert min(usage.input, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h, usage.output) >= 0
