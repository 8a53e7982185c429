"""A variable with a configured secret enters no sandbox, whoever asks for it."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from egress.errors import EgressError, UsageError
from egress.fleet import Fleet, open_fleet
from egress.fleet.env_policy import EnvironmentPolicy
from egress.runtime.errors import GatewayError
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Command
from egress.unix.http_connection import JsonAnswer
from tests.cli.command import put
from tests.fleet.memory_fleet import served, spec
from tests.fleet.test_opening import folder, in_memory, rules
from tests.proxy.serve_process import until

__all__ = ["folder", "in_memory", "rules"]

SECRET = "sesame-open-sesame-42"
LATER = "mellon-speak-friend-7"
TAKEN = {"TRACKER": SECRET, "LATER": LATER, "PIN": "1234"}
TRUE = Command(argv=("true",))


class Proxy:
    """What a proxy says of its rules."""

    def __init__(self, *names: str) -> None:
        self.answer = self.saying("a", *names)
        self.asked = 0
        self.known = ""
        """What it has from a file or a command."""

    def saying(self, digest: str, *names: str) -> JsonAnswer:
        return JsonAnswer(200, {"rules": {"in_force": digest, "variables": dict.fromkeys(names, "set")}})

    def __call__(self) -> JsonAnswer:
        self.asked += 1
        return self.answer

    def held(self, texts: Sequence[str]) -> JsonAnswer:
        places = [at for at, text in enumerate(texts) if self.known and self.known in text]
        return JsonAnswer(200, {"texts": len(texts), "held": places})

    def withheld(self, environ: Mapping[str, str]) -> EnvironmentPolicy:
        return EnvironmentPolicy(self, self.held, environ)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy("TRACKER", "PIN", "UNSET")


@pytest.fixture
def fleet(proxy: Proxy) -> Iterator[Fleet]:
    fleet = Fleet(FakeRuntime(images={"any"}), variables=proxy.withheld(TAKEN), tick=None)
    yield fleet
    fleet.close()


def refused(error: EgressError, name: str) -> None:
    """The variable is named, and nothing of the secret."""
    text = f"{error.message} {error.hint}"
    assert name in text
    assert "sesame" not in text and "mellon" not in text  # noqa: PT018


SPELLINGS = {
    "as-it-is": SECRET,
    "within-more": f"Bearer {SECRET};",
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64-of-a-pair": base64.b64encode(f"you:{SECRET}".encode()).decode(),
    "hex": SECRET.encode().hex(),
    "url": "".join(f"%{byte:02X}" for byte in SECRET.encode()),
}


@pytest.mark.parametrize("value", SPELLINGS.values(), ids=SPELLINGS)
def test_no_sandbox_is_made_with_a_secret(fleet: Fleet, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        fleet.create(spec(env={"INNOCENT": "yes", "KEY": value}))
    refused(caught.value, "KEY")
    assert fleet.list() == ()
    assert fleet.create(spec(env={"INNOCENT": "yes", "TRACKER": "stand-in"})).name == "one"


def test_a_sandbox_has_a_dummy_where_the_rules_take_a_secret_from(proxy: Proxy) -> None:
    """Programs that insist on a key start without one; what its user asked for wins."""
    fleet = Fleet(FakeRuntime(images={"any"}), variables=proxy.withheld(TAKEN), tick=None)
    try:
        made = spec(env={"UNSET": "mine"})
        fleet.create(made)
        fleet.start("one")
        seen = fleet.exec("one", Command(argv=("env",))).text.split()
        assert {"TRACKER=egress-no-key", "PIN=egress-no-key", "UNSET=mine"} <= set(seen)
        # It is no setting of the sandbox: the same one is found again under other rules.
        proxy.answer = proxy.saying("b", "OTHER")
        assert fleet.create(made).name == "one"
    finally:
        fleet.close()


def test_a_setting_that_a_program_needs_goes_with_its_dummy(proxy: Proxy) -> None:
    """With a token the Hugging Face client asks for one of the Xet store, which is denied, and gives up."""
    proxy.answer = proxy.saying("b", "HF_TOKEN")
    assert proxy.withheld({}).dummies() == {"HF_TOKEN": "egress-no-key", "HF_HUB_DISABLE_XET": "1"}
    proxy.answer = proxy.saying("c", "TOKEN_OF_HF")
    assert proxy.withheld({}).dummies() == {"TOKEN_OF_HF": "egress-no-key"}


def test_no_dummy_is_set_where_the_callers_own_value_is_the_dummy(proxy: Proxy) -> None:
    """In a sandbox of a sandbox it would count as the secret."""
    found = proxy.withheld({**TAKEN, "TRACKER": "egress-no-key"}).dummies()
    assert found == {"PIN": "egress-no-key", "UNSET": "egress-no-key"}


def test_without_an_answer_of_the_proxy_there_are_no_dummies_and_no_sandbox(proxy: Proxy) -> None:
    proxy.answer = JsonAnswer(503, {})
    with pytest.raises(GatewayError):
        proxy.withheld(TAKEN).dummies()


def test_no_command_is_run_with_a_secret(fleet: Fleet) -> None:
    fleet.create(spec())
    fleet.start("one")
    told = Command(argv=("env",), env={"KEY": SECRET})
    for begin in (fleet.exec, fleet.spawn):
        with pytest.raises(UsageError) as caught:
            begin("one", told)
        refused(caught.value, "KEY")
    assert b"KEY=other" in fleet.exec("one", Command(argv=("env",), env={"KEY": "other"})).stdout_bytes


def test_nobody_behind_the_socket_can_either(fleet: Fleet) -> None:
    """The process there has no such value: it is the owner who knows it."""
    with served(fleet) as remote:
        with pytest.raises(UsageError) as caught:
            remote.create(spec(env={"KEY": SECRET}))
        refused(caught.value, "KEY")
        remote.create(spec())
        remote.start("one")
        with pytest.raises(UsageError) as caught:
            remote.exec("one", Command(argv=("env",), env={"KEY": SECRET}))
        refused(caught.value, "KEY")


def test_a_name_that_is_a_secret_is_not_shown() -> None:
    withheld = Proxy("TOKEN").withheld({"TOKEN": "sesame_open_sesame"})
    with pytest.raises(UsageError, match="the name of a variable holds") as caught:
        withheld.check({"sesame_open_sesame": "1"})
    assert "sesame" not in caught.value.message + caught.value.hint


def test_the_line_end_of_a_secret_is_none_of_it() -> None:
    """It is not sent either."""
    with pytest.raises(UsageError):
        Proxy("TRACKER").withheld({"TRACKER": f"{SECRET}\n"}).check({"KEY": SECRET})


def test_what_is_too_short_to_be_looked_for_is_left(fleet: Fleet) -> None:
    assert fleet.create(spec(env={"PORT": "1234"})).name == "one"


def test_rules_that_changed_count_at_once(fleet: Fleet, proxy: Proxy) -> None:
    fleet.create(spec(env={"KEY": LATER}))
    fleet.start("one")
    proxy.answer = proxy.saying("b", "TRACKER", "LATER")
    with pytest.raises(UsageError):
        fleet.create(spec("two", env={"KEY": LATER}))
    with pytest.raises(UsageError):
        fleet.exec("one", Command(argv=("true",), env={"KEY": LATER}))


def test_what_is_searched_for_is_put_together_once(proxy: Proxy) -> None:
    withheld = proxy.withheld(TAKEN)
    withheld.check({"A": "1"})
    found = withheld._current()[1]
    withheld.check({"A": "2"})
    assert withheld._current()[1] is found
    proxy.answer = proxy.saying("b", "TRACKER")
    assert withheld._current()[1] is not found


def test_a_command_without_variables_asks_nobody(fleet: Fleet, proxy: Proxy) -> None:
    fleet.create(spec())
    fleet.start("one")
    # Once, for the dummies of the sandbox.
    assert proxy.asked == 1
    fleet.exec("one", TRUE)
    assert proxy.asked == 1


@pytest.mark.parametrize(
    "answer",
    [
        JsonAnswer(500, {"rules": {"in_force": "a", "variables": {}}}),
        JsonAnswer(200, {}),
        JsonAnswer(200, {"rules": {"in_force": "a"}}),
        JsonAnswer(200, {"rules": {"in_force": "a", "variables": ["TRACKER"]}}),
        JsonAnswer(200, {"rules": {"variables": {}}}),
    ],
)
def test_nothing_enters_where_the_proxy_does_not_say_what_it_has(
    fleet: Fleet, proxy: Proxy, answer: JsonAnswer
) -> None:
    proxy.answer = answer
    with pytest.raises(GatewayError):
        fleet.create(spec(env={"KEY": "innocent"}))
    assert fleet.list() == ()


def test_what_the_proxy_alone_knows_enters_neither(fleet: Fleet, proxy: Proxy) -> None:
    proxy.known = LATER
    fleet.create(spec())
    fleet.start("one")
    with pytest.raises(UsageError) as caught:
        fleet.exec("one", Command(argv=("env",), env={"INNOCENT": "yes", "KEY": f"Bearer {LATER}"}))
    refused(caught.value, "the value of KEY")
    proxy.known = "mellon_speak_friend"
    with pytest.raises(UsageError, match="the name of a variable holds") as caught:
        fleet.exec("one", Command(argv=("env",), env={"mellon_speak_friend": "yes"}))
    refused(caught.value, "")


def test_many_variables_are_shown_in_parts(fleet: Fleet, proxy: Proxy) -> None:
    """The proxy takes no more than so much at once."""
    proxy.known = LATER
    long = {f"V{number}": "x" * 30_000 for number in range(9)}
    with pytest.raises(UsageError) as caught:
        fleet.create(spec(env={**long, "KEY": LATER}))
    refused(caught.value, "KEY")
    assert fleet.create(spec(env=long)).name == "one"


@pytest.mark.parametrize(
    "answer",
    [
        JsonAnswer(404, {"texts": 2, "held": []}),
        JsonAnswer(200, {}),
        JsonAnswer(200, {"texts": 2}),
        JsonAnswer(200, {"texts": 1, "held": []}),
    ],
)
def test_nothing_enters_where_it_does_not_say_whether_it_knows_it(proxy: Proxy, answer: JsonAnswer) -> None:
    with pytest.raises(GatewayError):
        EnvironmentPolicy(proxy, lambda _: answer, TAKEN).check({"KEY": "innocent"})


# With a real proxy ------------------------------------------------------------------------------------

WITH = """version: 1
secrets:
  {name}: {{from: "env:{variable}", hosts: [api.example.test]}}
hosts:
  api.example.test: {{allow: all, inject: [{{bearer: {name}}}]}}
"""


@pytest.mark.usefixtures("in_memory")
def test_the_secrets_of_a_proxy_that_runs(rules: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its rules, as they change, and not at all once it does not answer."""
    for name, value in TAKEN.items():
        monkeypatch.setenv(name, value)
    put(rules, WITH.format(name="tracker", variable="TRACKER"))
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        assert isinstance(fleet, Fleet)
        with pytest.raises(UsageError) as caught:
            fleet.create(spec(env={"KEY": SECRET}))
        refused(caught.value, "KEY")
        fleet.create(spec(env={"KEY": LATER}))
        fleet.start("one")

        put(rules, WITH.format(name="later", variable="LATER"))
        proxy = fleet._check.__self__  # type: ignore[attr-defined]
        os.kill(proxy.pid, signal.SIGHUP)
        until(lambda: _is_refused(fleet))

        proxy.close()
        with pytest.raises(GatewayError):
            fleet.exec("one", Command(argv=("true",), env={"KEY": "innocent"}))
        assert fleet.exec("one", TRUE).exit_code == 0


ELSEWHERE = """version: 1
secrets:
  one: {{from: "file:{file}", hosts: [api.example.test]}}
  two: {{from: {{command: ["/bin/cat", "{printed}"]}}, hosts: [api.example.test]}}
hosts:
  api.example.test: {{allow: all, inject: [{{bearer: one}}]}}
"""


@pytest.mark.usefixtures("in_memory")
def test_secrets_of_files_and_commands_of_a_proxy_that_runs(
    rules: Path, folder: Path, tmp_path: Path
) -> None:
    """S-44: only those of the environment were known here, and the others were let in."""
    file, printed = put(tmp_path / "file", SECRET), put(tmp_path / "printed", LATER)
    file.chmod(0o600)
    put(rules, ELSEWHERE.format(file=file, printed=printed))
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        for value in (SECRET, LATER, base64.b64encode(LATER.encode()).decode()):
            with pytest.raises(UsageError) as caught:
                fleet.create(spec(env={"KEY": value}))
            refused(caught.value, "the value of KEY")
        # As large as a variable can be, with all of it escaped.
        assert fleet.create(spec(env={"KEY": "\1" * (128 * 1024 - 6)})).name == "one"
        assert fleet.about.runtime_dir is not None
        log = (fleet.about.runtime_dir / "proxy.log").read_text("utf-8")
        assert "sesame" not in log and "mellon" not in log  # noqa: PT018


def _is_refused(fleet: Fleet) -> bool:
    try:
        fleet.exec("one", Command(argv=("true",), env={"KEY": LATER}))
    except UsageError as error:
        refused(error, "KEY")
        return True
    return False
