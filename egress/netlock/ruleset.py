"""The rules of the lock: the proxy's user may go anywhere, everybody else to this pod alone.

Names, web pages and APIs that a workload asks for elsewhere are led to the proxy, at the same port of the
loopback device. Everything else is refused, so that it fails at once and does not wait for a timeout.
"""

from __future__ import annotations

from typing import Final

from egress.kubernetes.diverted_ports import DIVERTED_TCP_PORTS, DIVERTED_UDP_PORTS
from egress.netlock import expressions
from egress.netlock.expressions import Protocol
from egress.netlock.netlink import FilterMessage, nested, number32, text

TABLE: Final = "egress"
LOOPBACK_DEVICE: Final = 1
"""The index of the loopback device: in each network it is the first one."""
_DIVERTED: Final = (
    *((Protocol.TCP, port) for port in DIVERTED_TCP_PORTS),
    *((Protocol.UDP, port) for port in DIVERTED_UDP_PORTS),
)
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 2, 3, 6
_OUTPUT_HOOK: Final = 3
_DIVERT, _REFUSE = "divert", "refuse"
_ADDRESS_PRIORITY, _FILTER_PRIORITY = -100, 0
_DROP, _ACCEPT = 0, 1

type Rule = tuple[bytes, ...]


def lock_messages(proxy_user: int) -> tuple[FilterMessage, ...]:
    """Return the changes that lock this network. They replace what an earlier lock has set."""
    table = text(1, TABLE)
    return (
        # Deleting a table that is not there would fail; making one that is there does nothing.
        FilterMessage(_NEW_TABLE, table),
        FilterMessage(_DELETE_TABLE, table, creates=False),
        FilterMessage(_NEW_TABLE, table),
        _chain(_DIVERT, "nat", _ADDRESS_PRIORITY, _ACCEPT),
        # Whatever no rule knows is dropped, also if a later rule is wrong.
        _chain(_REFUSE, "filter", _FILTER_PRIORITY, _DROP),
        *(_rule(_DIVERT, rule) for rule in divert_rules(proxy_user)),
        *(_rule(_REFUSE, rule) for rule in refuse_rules(proxy_user)),
    )


def divert_rules(proxy_user: int) -> tuple[Rule, ...]:
    """Return the rules that lead to the proxy."""
    return (
        (*expressions.owner_is(proxy_user), expressions.accept()),
        *(
            (*expressions.is_protocol(protocol), *expressions.port_is(port), expressions.redirect())
            for protocol, port in _DIVERTED
        ),
    )


def refuse_rules(proxy_user: int) -> tuple[Rule, ...]:
    """Return the rules that refuse what does not lead to the proxy."""
    return (
        (*expressions.owner_is(proxy_user), expressions.accept()),
        (*expressions.leaves_by(LOOPBACK_DEVICE), expressions.accept()),
        # What was led to the proxy still seems to leave by the device that it was sent to before.
        (*expressions.goes_to_loopback(), expressions.accept()),
        # Probes of the kubelet and clients of the workload get their answers.
        (*expressions.answers_a_connection(), expressions.accept()),
        (*expressions.is_protocol(Protocol.TCP), expressions.reset()),
        (expressions.prohibit(),),
    )


def _chain(name: str, kind: str, priority: int, policy: int) -> FilterMessage:
    hook = nested(4, number32(1, _OUTPUT_HOOK), number32(2, priority))
    return FilterMessage(
        _NEW_CHAIN, text(1, TABLE) + text(3, name) + hook + number32(5, policy) + text(7, kind)
    )


def _rule(chain: str, rule: Rule) -> FilterMessage:
    return FilterMessage(_NEW_RULE, text(1, TABLE) + text(2, chain) + nested(4, *rule))
