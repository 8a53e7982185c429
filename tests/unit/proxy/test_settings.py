"""What a proxy is set to, by what, and what is said about a setting that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.proxy import settings
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import EffectiveSettings, Settings, read


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(settings.variable(name), raising=False)
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/you")


def shown(effective: EffectiveSettings) -> dict[str, tuple[str, str]]:
    return {flag: (value, origin) for flag, value, origin in effective.rows()}


def test_nothing_has_to_be_set() -> None:
    rows = shown(read({}))
    assert rows["--listen"] == ("127.0.0.1:3128", "default")
    assert rows["--state-dir"] == ("/home/you/.local/state/egress", "default")
    assert rows["--runtime-dir"] == ("/home/you/.local/state/egress/run", "default")
    assert rows["--audit-dir"] == ("/home/you/.local/state/egress/audit", "default")
    assert {origin for _, origin in rows.values()} == {"default"}


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_DRAIN", "7")
    monkeypatch.setenv("EGRESS_LISTEN", "127.0.0.1:1,[::1]:2")
    rows = shown(read({"drain": "2m"}))
    assert rows["--drain"] == ("120s", "flag")
    assert rows["--listen"] == ("127.0.0.1:1, [::1]:2", "environment")
    assert rows["--sandbox"] == ("default", "default")


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_DRAIN", "")
    assert shown(read({}))["--drain"] == ("30s", "default")


def test_what_is_not_said_follows_from_what_is() -> None:
    rows = shown(read({"state_dir": "/srv/egress"}))
    assert rows["--audit-dir"][0] == "/srv/egress/audit"
    assert rows["--runtime-dir"][0] == "/srv/egress/run"


def test_the_folder_of_the_session_holds_the_control_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert shown(read({}))["--runtime-dir"][0] == "/run/user/1/egress"


def test_no_file_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A repository must not set anything by a `.env`."""
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("EGRESS_LISTEN=0.0.0.0:1\nEGRESS_NETWORK=true\n", encoding="utf-8")
    assert read({}).values.listen == (ListenAddress("127.0.0.1", 3128),)


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        ({"rules": ("a", "b")}, (Path("a"), Path("b"))),
        ({"rules": "a:b"}, (Path("a"), Path("b"))),
    ],
)
def test_several_are_given_one_by_one_or_joined(flags: dict[str, object], value: tuple[Path, ...]) -> None:
    assert read(flags).values.rules == value


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.9.9.9:3128", "[::1]:65535"])
def test_loopback_needs_nothing_more(address: str) -> None:
    assert str(read({"listen": (address,)}).values.listen[0]) == address


@pytest.mark.parametrize("address", ["::1:0", "::1", "::", "[::1:3128", "::1]:3128", "2001:db8::1:3128"])
def test_an_ipv6_address_without_brackets_could_be_read_in_two_ways(address: str) -> None:
    with pytest.raises(UsageError, match="needs brackets") as caught:
        read({"listen": (address,), "network": True})
    assert "[::1]:3128" in caught.value.hint


def test_brackets_around_no_ipv6_address_are_left_alone_or_wrong() -> None:
    assert str(read({"listen": ("[127.0.0.1]:1",)}).values.listen[0]) == "127.0.0.1:1"
    with pytest.raises(UsageError, match="not an address and a port"):
        read({"listen": ("[x]:1",)})


@pytest.mark.parametrize("address", ["0.0.0.0:3128", "[::]:3128", "192.0.2.1:1", "127.0.0.1:1,10.0.0.1:1"])
def test_other_machines_are_let_in_only_by_a_word(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        read({"listen": address})
    assert "--network" in caught.value.hint
    assert "--password-file" in caught.value.hint
    read({"listen": address, "network": True})
    read({"listen": address, "password_file": "password"})


@pytest.mark.parametrize("nowhere", ["none", ("none",), ["none"]])
def test_it_need_not_listen_where_listeners_are_handed_over(nowhere: object) -> None:
    found = read({"listen": nowhere, "handover": True})
    assert found.values.listen == ()
    assert shown(found)["--listen"] == ("none", "flag")
    with pytest.raises(UsageError, match="no address to listen on") as caught:
        read({"listen": nowhere})
    assert "--handover" in caught.value.hint


@pytest.mark.parametrize("listen", ["none,127.0.0.1:1", ("none", "127.0.0.1:1"), ",", ""])
def test_none_stands_alone(listen: object) -> None:
    with pytest.raises(UsageError):
        read({"listen": listen, "handover": True})


def test_what_belongs_to_a_listener_needs_one() -> None:
    given = {"listen": "none", "handover": True, "network": True, "transparent": "10.0.0.2"}
    with pytest.raises(UsageError, match="--transparent belongs to a listener"):
        read(given)


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("9464", "127.0.0.1:9464"),
        ("0", "127.0.0.1:0"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("[::1]:1", "[::1]:1"),
    ],
)
def test_metrics_are_served_on_this_machine_by_a_port_alone(written: str, at: str) -> None:
    assert str(read({"metrics": written}).values.metrics) == at
    assert read({}).values.metrics is None


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464"])
def test_metrics_are_opened_to_other_machines_only_by_a_word(address: str) -> None:
    with pytest.raises(UsageError, match="the names in the rules, to other machines") as caught:
        read({"metrics": address})
    assert "--metrics-token-file" in caught.value.hint
    assert "--metrics-allow" in caught.value.hint
    read({"metrics": address, "metrics_token_file": "token"})
    read({"metrics": address, "metrics_allow": "192.0.2.7/32,2001:db8::/64"})


@pytest.mark.parametrize("given", [{"metrics_token_file": "token"}, {"metrics_allow": "192.0.2.7/32"}])
def test_what_guards_the_metrics_needs_them(given: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="has no effect"):
        read(given)


def test_no_machine_can_be_named_where_only_this_one_is_served() -> None:
    with pytest.raises(UsageError, match="no effect on a loopback address"):
        read({"metrics": "9464", "metrics_allow": "192.0.2.7/32"})


WRONG = {
    "listen": ["localhost:3128", "127.0.0.1", "127.0.0.1:", ":3128", "127.0.0.1:65536", "127.0.0.1:-1", ","],
    "resolve": [
        "api.example.com",
        "=1.2.3.4",
        "api.example.com=",
        "api.example.com=example.org",
        "a b=1.2.3.4",
    ],
    "own_address": ["10.0.0.1/8", "example.com"],
    "sandbox": ["a b", "", "A", "-a", "a/b", "..", "x" * 64],
    "audit_rotate": ["64MB", "-1", "much"],
    "audit_keep": ["-1", "x", "1.5"],
    "audit_on_full": ["explode"],
    "drain": ["0", "-1s", "soon"],
    "log_level": ["INFO!", "all"],
    "container": ["maybe"],
    "transparent": ["localhost", "127.0.0.1:443", "10.0.0.0/8"],
    "dns": ["localhost:53", "10.0.0.1", "10.0.0.1:dns"],
    "metrics": ["localhost:9464", "127.0.0.1", ":9464", "99999", "x", "127.0.0.1:1,127.0.0.1:2"],
    "metrics_allow": ["10.0.0.1/8", "prometheus.example.com"],
    "otlp": [
        "collector:4318",
        "grpc://collector:4317",
        "http://user:sesame@collector",
        "http://c?token=sesame",
    ],
    "otlp_signals": [",", "spans", "traces,events"],
    "otlp_rate": ["0", "100001", "x"],
    "dns_answer": ["::1", "example.com", "10.0.0.1,10.0.0.2"],
    "pin": [
        "api.example.com",
        "api.example.com=sha256/AAAA",
        f"api.example.com=sha512/{'A' * 43}=",
        f"*.example.com=sha256/{'A' * 43}=",
        f"=sha256/{'A' * 43}=",
        f"api.example.com=sha256/{'A' * 42}==",
    ],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_what_cannot_be_is_refused_by_name(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as caught:
        read({name: value})
    if value != ",":
        assert caught.value.message.startswith(f"{settings.flag(name)}: ")
    if value:
        monkeypatch.setenv(settings.variable(name), value)
        with pytest.raises(UsageError) as caught:
            read({})
        if value != ",":
            assert caught.value.message.startswith(f"{settings.variable(name)}: ")


@pytest.mark.parametrize("name", WRONG)
def test_what_was_written_is_never_quoted(name: str) -> None:
    """It may be a password that went to the wrong place."""
    with pytest.raises(UsageError) as caught:
        read({name: "Open Sesame!"})
    assert "esame" not in caught.value.message + caught.value.hint


PIN = f"sha256/{'A' * 43}="


def test_a_pin_is_of_one_host_in_its_canonical_spelling() -> None:
    pins = read({"pin": (f"API.Example.com={PIN}", f"192.0.2.1={PIN}")}).values.pin
    assert [str(pin) for pin in pins] == [f"api.example.com={PIN}", f"192.0.2.1={PIN}"]


@pytest.mark.parametrize("address", ["10.0.0.2", "::1", "127.0.0.1"])
@pytest.mark.parametrize("password", [{}, {"password_file": "password"}])
def test_who_cannot_be_asked_who_he_is_needs_a_network_of_his_own(
    address: str, password: dict[str, str]
) -> None:
    for flags in ({"transparent": address}, {"dns": "10.0.0.2:53", "dns_answer": "10.0.0.2"}):
        with pytest.raises(UsageError) as caught:
            read({**flags, **password})
        assert "--network" in caught.value.hint
        read({**flags, **password, "network": True})


def test_names_are_answered_with_the_transparent_address() -> None:
    at = {"dns": "10.0.0.2:53", "network": True}
    assert str(read({**at, "transparent": "::1,0.0.0.0,10.0.0.2,10.0.0.3"}).values.answer) == "10.0.0.2"
    given = {**at, "transparent": "10.0.0.2", "dns_answer": "10.9.9.9"}
    assert str(read(given).values.answer) == "10.9.9.9"


@pytest.mark.parametrize("transparent", ["", "::1", "0.0.0.0"])
def test_names_without_an_address_to_answer_are_refused(transparent: str) -> None:
    with pytest.raises(UsageError) as caught:
        read({"dns": "10.0.0.2:53", "network": True, "transparent": transparent})
    assert "--dns-answer" in caught.value.hint
    with pytest.raises(UsageError, match="--dns-answer has no effect"):
        read({"dns_answer": "10.0.0.2"})


def test_an_override_is_canonical() -> None:
    (override,) = read({"resolve": "API.Example.com=192.0.2.1"}).values.resolve
    assert str(override) == "api.example.com=192.0.2.1"


def test_sizes_and_times_are_written_as_people_do() -> None:
    rows = shown(read({"audit_rotate": "3 MiB", "audit_quota": "1000", "idle_timeout": "1h"}))
    assert rows["--audit-rotate"][0] == "3 MiB"
    assert rows["--audit-quota"][0] == "1000"
    assert rows["--idle-timeout"][0] == "3600s"
    assert rows["--container"][0] == "no"
    assert rows["--profile"][0] == "-"


def test_a_variable_that_is_no_setting_is_found_with_the_one_that_was_meant() -> None:
    environ = {
        "EGRESS_LISTNE": "x",
        "EGRESS_RULES": "x",
        "EGRESS_WHATEVER": "x",
        "PATH": "x",
        "EGRESS_RUNTIME": "x",
    }
    assert list(settings.unknown_variables(environ)) == [
        ("EGRESS_LISTNE", "EGRESS_LISTEN"),
        ("EGRESS_WHATEVER", ""),
    ]


def test_every_setting_says_what_it_is_in_one_line() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        assert len(field.description) <= 85, name


@pytest.mark.parametrize("name", ["otlp_headers_file", "otlp_ca"])
def test_files_for_a_collector_name_one(name: str) -> None:
    with pytest.raises(UsageError, match="has no effect without --otlp"):
        read({name: "file"})
    read({name: "file", "otlp": "https://collector.example.com"})


def test_a_collector_is_a_url_or_that_of_the_environment() -> None:
    assert str(read({"otlp": "https://collector.example.com/otlp/"}).values.otlp) == (
        "https://collector.example.com:443/otlp"
    )
    assert read({"otlp": "environment"}).values.otlp == "environment"
    assert read({"otlp": "http://127.0.0.1:4318", "otlp_signals": "logs"}).values.otlp_signals == ("logs",)
    assert read({}).values.otlp is None


IN_A_CLUSTER = {"kubernetes": True, "network": True, "listen": ("0.0.0.0:3128",)}


def test_a_gateway_of_a_cluster_drains_for_longer_unless_it_is_told_otherwise() -> None:
    assert shown(read(IN_A_CLUSTER))["--drain"] == ("120s", "default")
    assert shown(read({**IN_A_CLUSTER, "drain": "7"}))["--drain"] == ("7s", "flag")
    found = read(IN_A_CLUSTER).values
    assert str(found.service_account) == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert found.ready is None
    assert str(read({**IN_A_CLUSTER, "ready": "0.0.0.0:8081"}).values.ready) == "0.0.0.0:8081"


@pytest.mark.parametrize(
    "more",
    [
        {"network": False, "listen": ("127.0.0.1:3128",)},
        {"listen": "none", "handover": True},
        {"password_file": "password"},
        {"handover": True},
        {"profile": "reviewer"},
    ],
)
def test_what_is_told_apart_by_pods_is_told_apart_by_nothing_else(more: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="--kubernetes"):
        read({**IN_A_CLUSTER, **more})
