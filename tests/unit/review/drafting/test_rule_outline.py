"""One host of a draft: rules by method and secret, and what cannot be written said."""

from __future__ import annotations

from egress.review.drafting.rule_outline import HostOutline, LeftOut, outline_hosts
from egress.review.drafting.traffic import Traffic
from tests.unit.review.drafting.sample import GITHUB, denied, exchange, tunnel


def made(*lines: dict[str, object]) -> tuple[list[HostOutline], list[LeftOut]]:
    return outline_hosts(Traffic.of(lines))


def rules(*lines: dict[str, object]) -> list[tuple[str, tuple[str, ...], list[str] | None]]:
    (outline,), left_out = made(*lines)
    assert not left_out
    return [
        (rule.id, rule.methods, None if rule.templates is None else [one.pattern for one in rule.templates])
        for rule in outline.rules
    ]


def test_methods_with_the_same_paths_make_one_rule() -> None:
    assert rules(exchange("GET"), exchange("HEAD"), exchange("POST", path="/new")) == [
        ("read", ("GET", "HEAD"), ["/user"]),
        ("write", ("POST",), ["/new"]),
    ]


def test_a_seldom_method_is_not_widened_by_a_frequent_one() -> None:
    lines = [exchange("GET", path=f"/issues/{number}") for number in range(4)]
    assert rules(*lines, exchange("DELETE", path="/issues/2")) == [
        ("delete", ("DELETE",), ["/issues/2"]),
        ("read", ("GET",), ["/issues/*"]),
    ]


def test_what_was_denied_is_not_in_it() -> None:
    assert made(denied("rule.none")) == ([], [])


def test_what_was_cut_is_not_in_it_either() -> None:
    """Also where version 0.1.0 called it allowed."""
    assert made(exchange(verdict="cut", code="canary.seen")) == ([], [])
    assert made(exchange(code="canary.seen")) == ([], [])
    assert made(exchange(code="address.refused", address=None)) == ([], [])


def test_a_host_that_was_never_reached_is_left_out_with_its_reason() -> None:
    """Whoever registers the name later would be allowed."""
    hosts, left_out = made(exchange(code="upstream.unresolved"), exchange(code="upstream.unreachable"))
    assert hosts == []
    assert [(one.reason, one.count) for one in left_out] == [("the host was never reached", 1)] * 2
    _, left_out = made(exchange(code="upstream.closed"))
    assert not left_out


def test_paths_with_and_without_a_secret_are_kept_apart() -> None:
    with_one = [exchange(path=f"/u/{number}", injected=GITHUB) for number in range(4)]
    (outline,), _ = made(*with_one, exchange(path="/open"))
    assert [(len(rule.group.secrets), rule.templates and len(rule.templates)) for rule in outline.rules] == [
        (0, 1),
        (1, 1),
    ]


def test_nothing_is_generalised_where_that_would_send_a_secret_to_more() -> None:
    with_one = [exchange(path=f"/u/{number}", injected=GITHUB) for number in range(4)]
    (outline,), _ = made(*with_one, exchange(path="/u/9"))
    patterns = {one.pattern for rule in outline.rules for one in rule.templates or ()}
    assert patterns == {"/u/0", "/u/1", "/u/2", "/u/3", "/u/9"}
    assert any("no path is generalised" in remark for remark in outline.remarks)


def test_two_secrets_for_one_slot_leave_the_more_frequent_one() -> None:
    other = [("other", "header:authorization")]
    (outline,), _ = made(exchange(injected=GITHUB), exchange(injected=GITHUB), exchange(injected=other))
    assert set(outline.secrets) == {("github", "header:authorization")}
    assert any("the secret other is not injected" in remark for remark in outline.remarks)


def test_two_secrets_for_one_slot_may_be_for_rules_that_never_meet() -> None:
    other = [("other", "header:authorization")]
    (outline,), _ = made(exchange(injected=GITHUB), exchange("POST", injected=other))
    assert len(outline.secrets) == 2


def test_a_path_that_is_no_pattern_leaves_rules_without_paths() -> None:
    assert rules(exchange(path="/a//b"), exchange("POST", path="/c")) == [("mixed", ("GET", "POST"), None)]


def test_asking_about_the_server_takes_a_rule_without_paths() -> None:
    assert rules(exchange("OPTIONS", path="*"), exchange("OPTIONS", path="/a"), exchange(path="/a")) == [
        ("read", ("GET",), ["/a"]),
        ("read-2", ("OPTIONS",), None),
    ]


def test_web_sockets_and_grpc_have_rules_of_their_own() -> None:
    lines = [exchange(path="/ws", status=101), exchange(path="/ws"), exchange(path="/b")]
    assert rules(*lines) == [("read", ("GET",), ["/b"]), ("socket", ("GET",), ["/ws"])]
    assert (
        rules(*[exchange("POST", path=f"/pkg.Service/Do{n}", alpn="h2") for n in range(30)])[0][0] == "grpc"
    )


def test_clear_text_is_left_out_where_a_secret_goes() -> None:
    (outline,), left_out = made(exchange(injected=GITHUB), exchange(scheme="http", port=80))
    assert not outline.clear_ports
    assert [(one.host, one.count) for one in left_out] == [("api.example.com", 1)]


def test_tunnels_alone_make_an_unread_host_and_beside_requests_a_remark() -> None:
    (alone,), _ = made(tunnel("a.example.com"))
    assert alone.is_tunnel
    (both,), left_out = made(tunnel("a.example.com"), exchange(host="a.example.com"))
    assert not both.is_tunnel
    assert "1 connections were tunnelled unread" in both.remarks[0]
    assert not left_out
    _, left_out = made(tunnel("a.example.com", 8443), exchange(host="a.example.com"))
    assert [one.count for one in left_out] == [1]


def test_what_no_rule_can_name_is_left_out_with_its_reason() -> None:
    found, left_out = made(
        exchange("get"),
        exchange("TRACE"),
        exchange("bad method"),
        exchange(host="UPPER.example"),
        exchange(host="\x1b[31m"),
        exchange(path="/a/../b"),
        exchange("GET", path="*"),
        exchange(host="ghp_abcdefghijklmnopqrstuvwxyz0123456789.example"),
        exchange("ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
    )
    assert found == []
    assert len(left_out) == 9
    assert all(one.host.isprintable() for one in left_out)
