"""What a relay tells its surroundings, and when."""

from __future__ import annotations

from egress.relay.ports import ExchangeTiming, RelayEnvironment
from tests.unit.relay.wires import RULES, START, Desk, Lab, get, policy_of, response


def test_the_surroundings_of_these_tests_are_surroundings() -> None:
    service: RelayEnvironment = Desk(policy_of(RULES))
    assert service.monotonic() == START


def test_an_exchange_that_never_left_has_no_wire() -> None:
    assert ExchangeTiming().wire == -1
    lab = Lab()
    lab.says(get("/admin"))
    (timing,) = lab.desk.timings
    assert (timing.wire, timing.sent, timing.answered) == (-1, 0, 0)
    assert timing.ended >= timing.began > 0


def test_the_stages_are_timed() -> None:
    lab = Lab(at_hand=False)
    lab.says(get())
    lab.desk.clock += 1
    lab.fetches()
    lab.desk.clock += 2
    wire = lab.opens()
    lab.desk.clock += 4
    lab.answers(response(b"12345")[:-1])
    lab.desk.clock += 8
    lab.answers(b"5")
    (timing,) = lab.desk.timings
    assert timing.wire == wire
    assert timing.secret_wait == 1
    assert timing.sent - timing.began == 3
    assert timing.answered - timing.sent == 4
    assert timing.ended - timing.answered == 8


def test_an_opening_names_secrets_and_shows_none() -> None:
    lab = Lab()
    lab.says(get())
    assert lab.desk.begun == [("id1", "GET", ("api",))]
    assert lab.desk.left == []
    lab.opens()
    assert lab.desk.left == ["id1"]
