"""`open_fleet`: what it opens, with a real proxy, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import pytest
import structlog

from egress.api_server.server import ApiServer
from egress.audit import verify_log
from egress.ca import new_authority_file
from egress.fleet import Fleet, RemoteRuntime, open_fleet, opening
from egress.fleet.embedded_proxy import EmbeddedProxy
from egress.fleet.errors import ProxyFailedError
from egress.fleet.protocol import FleetInfo, SandboxFleet
from egress.fleet.runtime_choice import RuntimeChoice, RuntimeParameters
from egress.logger import EventLogger
from egress.proxy.clock import SystemClock
from egress.review import Filters, Index
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.errors import (
    GatewayError,
    ImageMissingError,
    MountError,
    SandboxDiedError,
    SandboxExistsError,
    SandboxStateError,
    SpecError,
)
from egress.runtime.fake import FakeRuntime
from egress.runtime.mount_check import check_mounts
from egress.runtime.protocol import Runtime
from egress.runtime.proxy_client import ControlProxyClient
from egress.runtime.spec import Command, Mount, Spec
from egress.sandbox import default_fleet
from egress.sandbox.default_fleet import DefaultFleet
from egress.sandbox.handle import Sandbox
from tests.cli.command import environment, put
from tests.fleet.memory_fleet import MemoryFleet, short_folder, spec
from tests.fleet.test_die_with_parent import is_alive
from tests.fleet.test_preview import asked, opened
from tests.proxy.lab.certificates import Certificates
from tests.proxy.serve_process import until

RULES = "version: 1\nhosts:\n  api.example.test: {allow: all}\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with rules."""
    for name in list(os.environ):  # noqa: TID251
        if name.startswith(("EGRESS_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return put(tmp_path / "hosts.yaml", RULES)


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes in memory, at a proxy that is none."""

    def made(_: RuntimeChoice, place: RuntimeParameters) -> tuple[Runtime, FleetInfo]:
        return FakeRuntime(place.proxy, provision=place.provision), FleetInfo(kind="fake")

    monkeypatch.setattr(opening, "open_runtime", made)


@pytest.mark.usefixtures("in_memory")
def test_a_proxy_is_started_for_this_process_alone(rules: Path, folder: Path, tmp_path: Path) -> None:
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        fleet.create(spec())
        fleet.start("one")
        assert (
            b"BEGIN CERTIFICATE"
            in fleet.exec("one", Command(argv=("cat", "/etc/egress/ca.pem"))).stdout_bytes
        )
        assert fleet.about.runtime_dir is not None
        with pytest.raises(SandboxExistsError):
            ControlProxyClient(fleet.about.runtime_dir).admit("one")
        assert fleet.about.audit == tmp_path / ".local/state/egress/audit"
    assert sorted(each.name for each in folder.iterdir()) == ["embedded", "sandboxes"]
    assert list((folder / "embedded").iterdir()) == []
    assert "sandbox.added" in (fleet.about.audit / "audit-000001.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("runtime", ["namespace", "docker"])
def test_a_runtime_that_cannot_be_used_leaves_no_proxy_and_no_record(
    runtime: str, rules: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With containers the proxy loads meanwhile, and opens nothing."""
    began = list[int | None]()

    def refuse(*_: object) -> None:
        raise ImageMissingError("there is no such image", "build it")

    def close(proxy: EmbeddedProxy) -> None:
        usual_close(proxy)
        began.append(proxy.pid)

    usual_close = EmbeddedProxy.close
    monkeypatch.setattr(opening, "check_choice", refuse)
    monkeypatch.setattr(opening, "choose_runtime", lambda *_: RuntimeChoice("docker", "requested"))
    monkeypatch.setattr(EmbeddedProxy, "close", close)
    with (
        pytest.raises(ImageMissingError),
        open_fleet(rules=[rules], runtime=runtime, runtime_dir=folder, images=["no-such"]),
    ):
        pass
    assert len(began) == (runtime == "docker")
    assert not any(is_alive(pid or 0) for pid in began)
    assert [each for each in folder.rglob("*") if not each.is_dir()] == []
    assert not (tmp_path / ".local").exists()


def test_mistakes_in_rules_are_told_of(rules: Path, folder: Path) -> None:
    rules.write_text("version: 2\n", encoding="utf-8")
    with (
        pytest.raises(ProxyFailedError, match="these rules cannot be used"),
        open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder),
    ):
        pass
    assert list((folder / "embedded").iterdir()) == []


def test_what_settings_place_elsewhere_is_closed_to_sandboxes(
    rules: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-49: a sandbox moved the log away that it was mounted with, and nothing was said of it."""
    for name, variable in (
        ("log", "AUDIT_DIR"),
        ("key", "AUDIT_KEY"),
        ("word", "PASSWORD_FILE"),
        ("count", "METRICS_TOKEN_FILE"),
        ("head", "OTLP_HEADERS_FILE"),
        ("authority", "AUTHORITY_FILE"),
        ("account", "SERVICE_ACCOUNT"),
    ):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"EGRESS_{variable}", str(tmp_path / name / "it"))
    given, counted = put(tmp_path / "given/it", "another-one-of-these"), put(tmp_path / "count/it", "t" * 40)
    headers = put(tmp_path / "head/it", "authorization: another-one\n")
    authority = tmp_path / "authority/it"
    authority.write_bytes(new_authority_file("gateway", SystemClock().now()))
    for file in (given, counted, headers, authority):
        file.chmod(0o600)
    monkeypatch.setenv("EGRESS_METRICS", "127.0.0.1:0")
    monkeypatch.setenv("EGRESS_OTLP", "http://127.0.0.1:9")
    places: list[RuntimeParameters] = []

    def made(_: RuntimeChoice, place: RuntimeParameters) -> tuple[Runtime, FleetInfo]:
        places.append(place)
        return FakeRuntime(place.proxy, provision=place.provision), FleetInfo(kind="fake")

    monkeypatch.setattr(opening, "open_runtime", made)
    options = ("--password-file", str(given))
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder, options=options):
        [place] = places
        for name in ("log", "key", "word", "count", "head", "authority", "account", "given"):
            for writable in (False, True):
                mount = Mount(source=tmp_path / name, target="/work", writable=writable)
                with pytest.raises(MountError, match="must not see"):
                    check_mounts([mount], place.guarded)


@pytest.mark.usefixtures("in_memory")
def test_no_sandbox_writes_the_certificates_that_the_proxy_trusts(
    rules: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next proxy would take its own authority for that of every host."""
    for name in ("named", "first", "second", "collector"):
        (tmp_path / name).mkdir()
        Certificates().write_ca(tmp_path / name / "ca.pem")
    monkeypatch.setenv("EGRESS_UPSTREAM_CA", f"{tmp_path}/first/ca.pem:{tmp_path}/second/ca.pem")
    monkeypatch.setenv("EGRESS_OTLP", "https://127.0.0.1:9")
    options = (f"--upstream-ca={tmp_path}/named/ca.pem", f"--otlp-ca={tmp_path}/collector/ca.pem")
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder, options=options) as fleet:
        for name in ("named", "first", "second", "collector"):
            wrong = Mount(source=tmp_path / name, target="/work", writable=True)
            with pytest.raises(MountError, match="certificates that the proxy trusts"):
                fleet.create(Spec(name=name, image="any", mounts=(wrong,)))
            # A program in the sandbox may read them, to trust the same hosts.
            fleet.create(Spec(name=name, image="any", mounts=(replace(wrong, writable=False),)))


@pytest.mark.usefixtures("in_memory")
def test_no_sandbox_writes_the_egress_that_made_it(rules: Path, folder: Path, tmp_path: Path) -> None:
    """S-44: a line that one wrote there ran as its user at the next start."""
    package = Path(opening.__file__).parents[1]
    usual = put(tmp_path / "project/file", "").parent
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        for source in (package.parent, package / "fleet", Path(sys.prefix)):
            wrong = Mount(source=source, target="/workspace", writable=True)
            with pytest.raises(MountError, match="code that Egress runs"):
                fleet.create(Spec(name="one", image="any", mounts=(wrong,)))
        mounts = (
            Mount(source=usual, target="/workspace", writable=True),
            Mount(source=package, target="/egress"),
        )
        assert fleet.create(Spec(name="one", image="any", mounts=mounts)).name == "one"


@pytest.mark.usefixtures("in_memory")
def test_two_at_a_time_do_not_disturb_each_other(rules: Path, folder: Path) -> None:
    with (
        open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as one,
        open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as other,
    ):
        one.create(spec())
        other.create(spec())
        assert one.about.run != other.about.run
    log = other.about.audit
    assert log is not None
    assert log == one.about.audit
    # One record of both: each line names its run.
    with Index(log) as index:
        index.catch_up()
        runs = {entry.text("run") for entry in index.query(Filters(event="sandbox.added")).entries}
        assert runs == {one.about.run, other.about.run}
    assert len(verify_log(log, (log.parent / "audit.key").read_bytes()).chains) == 2


@pytest.mark.usefixtures("in_memory")
def test_rules_are_those_that_a_proxy_would_find(rules: Path, folder: Path, tmp_path: Path) -> None:
    """What only lies in the working directory is not used before it is trusted."""
    with (
        pytest.raises(ProxyFailedError, match="trust"),
        open_fleet(runtime="namespace", runtime_dir=folder),
    ):
        pass
    put(tmp_path / ".config/egress/hosts.yaml", RULES)
    with open_fleet(runtime="namespace", runtime_dir=folder) as fleet:
        assert fleet.list() == ()


def test_sandboxes_that_are_served_are_taken_where_nothing_else_is_asked_for(
    rules: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estate = MemoryFleet()
    estate.fleet.create(spec())
    service = ApiServer(estate.fleet, folder)
    monkeypatch.setattr(opening, "open_embedded", lambda *_: pytest.fail("a proxy was started"))
    with open_fleet(runtime_dir=folder) as fleet:
        assert isinstance(fleet, RemoteRuntime)
        assert [each.name for each in fleet.list()] == ["one"]
    assert [each.name for each in estate.fleet.list()] == ["one"]
    service.close()
    estate.fleet.close()


@pytest.mark.usefixtures("in_memory")
def test_whoever_names_rules_gets_those_rules(rules: Path, folder: Path) -> None:
    """Sandboxes that are served have other ones."""
    estate = MemoryFleet()
    service = ApiServer(estate.fleet, folder)
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        assert not isinstance(fleet, RemoteRuntime)
    service.close()
    estate.fleet.close()


@pytest.mark.usefixtures("in_memory")
def test_the_kind_of_the_variable_holds_against_sandboxes_that_are_served(
    rules: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estate = MemoryFleet()
    service = ApiServer(estate.fleet, folder)
    monkeypatch.setenv("EGRESS_RULES", str(rules))
    monkeypatch.setenv("EGRESS_RUNTIME", "namespace")
    with open_fleet(runtime_dir=folder) as fleet:
        assert not isinstance(fleet, RemoteRuntime)
    service.close()
    estate.fleet.close()


def test_a_kind_that_is_none_starts_nothing(rules: Path, folder: Path) -> None:
    with (
        pytest.raises(SpecError),
        open_fleet(rules=[rules], runtime="not the name of a runtime", runtime_dir=folder),
    ):
        pass
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("in_memory")
def test_logs_stay_off_the_standard_output(
    rules: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It belongs to the commands that run in sandboxes."""
    structlog.reset_defaults()
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder):
        EventLogger("egress.fleet").warning("said")
    said = capsys.readouterr()
    assert (said.out, "said" in said.err) == ("", True)
    assert not structlog.is_configured()


@pytest.mark.usefixtures("in_memory")
def test_a_run_has_the_id_that_its_user_gave_it(
    rules: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EGRESS_RUN_ID", "nightly-7")
    monkeypatch.setenv("EGRESS_AUDIT_DIR", str(tmp_path / "elsewhere"))
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        assert (fleet.about.run, fleet.about.audit) == ("nightly-7", tmp_path / "elsewhere")
    assert '"run":"nightly-7","event":"started"' in (tmp_path / "elsewhere/audit-000001.jsonl").read_text()


# With a real engine -----------------------------------------------------------------------------------

_PARENT = """
import sys
from pathlib import Path
from egress.fleet import open_fleet
from egress.runtime.spec import Command, Spec
with open_fleet(rules=[Path(sys.argv[1])], runtime="docker", runtime_dir=Path(sys.argv[2])) as fleet:
    fleet.create(Spec(name="one", image=sys.argv[3]))
    fleet.start("one")
    print(fleet._check.__self__.pid, flush=True)
    sys.stdin.read()
"""


def _hello(fleet: SandboxFleet, image: str) -> bytes:
    fleet.create(Spec(name="one", image=image))
    fleet.start("one")
    return fleet.exec("one", Command(argv=("echo", "hello"))).stdout_bytes


def test_containers_run_behind_it_and_over_the_socket(
    engine: DockerEngine, image: str, rules: Path, folder: Path
) -> None:
    with open_fleet(rules=[rules], runtime="docker", runtime_dir=folder) as fleet:
        assert fleet.about.kind == "docker"
        assert _hello(fleet, image) == b"hello\n"
        assert isinstance(fleet, Fleet)
        service = ApiServer(fleet, folder)
        with open_fleet(runtime_dir=folder) as remote:
            assert isinstance(remote, RemoteRuntime)
            assert (
                remote.exec("one", Command(argv=("cat",), input=b"x" * 300_000)).stdout_bytes
                == b"x" * 300_000
            )
            process = remote.spawn("one", Command(argv=("cat",)))
            process.write(b"typed")
            process.close_input()
            assert process.wait(30).stdout_bytes == b"typed"
            assert remote.exec("one", Command(argv=("sleep", "60"), timeout=0.2)).timed_out
        service.close()


def test_a_kind_that_is_served_is_used_and_another_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    own = FakeRuntime()
    asked: list[str] = []

    def opened(*, runtime: str) -> AbstractContextManager[Runtime]:
        asked.append(runtime)
        return nullcontext(own)

    monkeypatch.setattr("egress.fleet.open_fleet", opened)
    memory = MemoryFleet()
    with short_folder() as folder:
        monkeypatch.setenv("EGRESS_RUNTIME_DIR", str(folder))
        service = ApiServer(memory.fleet, folder)
        with default_fleet._open_named("fake") as found:
            assert isinstance(found, RemoteRuntime)
        assert asked == []
        with default_fleet._open_named("docker") as found:
            assert found is own
        service.close()
        with default_fleet._open_named("fake") as found:
            assert found is own
    assert asked == ["docker", "fake"]


@pytest.mark.usefixtures("engine")
def test_a_sandbox_of_a_named_kind_has_a_fleet_of_that_kind(
    image: str, rules: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGRESS_RULES", str(rules))
    monkeypatch.setenv("EGRESS_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(default_fleet, "_NAMED_FLEETS", named := dict[str, DefaultFleet]())
    try:
        with Sandbox.create(image=image, runtime="docker") as box:
            assert box.exec(["echo", "hello"]).stdout == "hello\n"
            assert [info.name for info in Sandbox.list(runtime="docker")] == [box.name]
        assert list(named) == ["docker"]
    finally:
        for fleet in named.values():
            fleet.close()


def test_what_was_killed_is_cleared_away_by_the_next(
    engine: DockerEngine, image: str, rules: Path, folder: Path, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", _PARENT, str(rules), str(folder), image]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path)
    ) as parent:
        proxy = _number(parent.stdout)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not is_alive(proxy), "the proxy to end")
    with open_fleet(rules=[rules], runtime="docker", runtime_dir=folder) as fleet:
        assert fleet.list() == ()
        assert _hello(fleet, image) == b"hello\n"
        assert len(list((folder / "embedded").iterdir())) == 1


# With real namespaces ---------------------------------------------------------------------------------

_PYTHON = "/usr/bin/python3"


@pytest.mark.system(_PYTHON, "python3")
def test_a_port_of_a_sandbox_is_seen_by_a_browser(namespaces: None, rules: Path, folder: Path) -> None:
    """From the page of a program that listens in there, by the door, to a client that has the address."""
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        fleet.create(Spec(name="one", image="host"))
        fleet.start("one")
        words = (_PYTHON, "-m", "http.server", "8000", "--bind", "0.0.0.0", "--directory", "/etc/egress")
        server = fleet.spawn("one", Command(argv=words))
        location, cookie = opened(fleet.expose("one", 8000).url)

        def page() -> bytes:
            with asked(location, cookie) as answer:
                return answer.read() if answer.status == 200 else b""

        assert b"ca.pem" in until(page, "the page")
        server.kill()


def test_a_sandbox_does_not_reach_the_listener_of_previews(
    namespaces: None, rules: Path, folder: Path
) -> None:
    """Neither past the proxy nor by it; from the host it answers."""
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        fleet.create(Spec(name="one", image="host"))
        fleet.start("one")
        url = fleet.expose("one", 8000).url
        port = urlsplit(url).port
        past = ("curl", "-s", "-m", "10", "--noproxy", "*", f"http://127.0.0.1:{port}/")
        assert fleet.exec("one", Command(argv=past)).exit_code == 7
        for host in ("127.0.0.1", urlsplit(url).hostname):
            script = f'exec curl -s -m 10 --noproxy "" --proxy "$HTTP_PROXY" http://{host}:{port}/'
            result = fleet.exec("one", Command(argv=("/bin/sh", "-c", script)))
            assert b"with its token" not in result.stdout_bytes
            assert b'"code": "host.' in result.stdout_bytes
        with asked(url.partition("?")[0]) as answer:
            assert b"with its token" in answer.read()


def test_a_proxy_that_is_killed_is_followed_by_another_that_knows_the_sandbox(
    namespaces: None, rules: Path, folder: Path
) -> None:
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        fleet.create(Spec(name="one", image="host"))
        fleet.start("one")
        assert isinstance(fleet, Fleet)
        proxy = fleet._check.__self__  # type: ignore[attr-defined]
        os.kill(proxy.pid, signal.SIGKILL)
        until(lambda: "one" in _known(folder), "it to be admitted again")
        assert fleet.exec("one", Command(argv=("true",))).exit_code == 0


def test_one_that_sends_a_canary_that_stops_it_is_stopped(
    namespaces: None, rules: Path, folder: Path
) -> None:
    rules.write_text(RULES + "canaries: {trap: {like: aws, env: TRAP, file: ~/.trap, stop: true}}\n")
    with open_fleet(rules=[rules], runtime="namespace", runtime_dir=folder) as fleet:
        for name in ("one", "two"):
            fleet.create(Spec(name=name, image="host"))
            fleet.start(name)
        sleeping = fleet.spawn("one", Command(argv=("sleep", "300")))
        script = 'curl -s -m 10 https://api.example.test/ -H "x: $TRAP"; sleep 300'
        sending = fleet.spawn("one", Command(argv=("/bin/sh", "-c", script)))
        for process in (sleeping, sending):
            with pytest.raises(SandboxDiedError):
                process.wait(60)
        assert [each.state for each in fleet.list()] == ["stopped", "running"]
        with pytest.raises(SandboxStateError, match="sent a canary"):
            fleet.start("one")
        assert fleet.exec("two", Command(argv=("true",))).exit_code == 0
        # The next one of its name is another one.
        fleet.remove("one")
        fleet.create(Spec(name="one", image="host"))
        fleet.start("one")
        assert fleet.exec("one", Command(argv=("cat", "/home/sandbox/.trap"))).stdout_bytes.startswith(
            b"AKIA"
        )


def _known(folder: Path) -> str:
    """The sandboxes of the proxy, as it says it."""
    (private,) = (folder / "embedded").iterdir()
    try:
        _, answer = ControlProxyClient(private)._ask("GET", "/status", {})
    except GatewayError:
        return ""
    boxes = answer.get("sandboxes")
    return " ".join(str(box["name"]) for box in boxes) if isinstance(boxes, list) else ""


def _number(stream: IO[bytes] | None) -> int:
    assert stream is not None
    return int(stream.readline())
