"""Which handler is called: the rule file first, then choices from the narrow to the wide."""

from __future__ import annotations

from egress.rules.decide.outbound import NO_CHOICE, HandlerChoice, Outbound
from egress.rules.language.hosts import parse_host_pattern
from egress.types import Effects, HandlerUse, Identity

BOX = Identity("box")
A, B, C, D = (HandlerUse(name) for name in "abcd")


def choice(catch_all: HandlerUse | None = None, **hosts: HandlerUse) -> HandlerChoice:
    return HandlerChoice(
        {parse_host_pattern(f"{name}.example.com"): use for name, use in hosts.items()}, catch_all
    )


def test_the_order_of_choices() -> None:
    both = Outbound({}, choice(D, api=C), {"box": choice(B, api=A)})
    assert both.handler_for(BOX, "api.example.com", Effects()) == A
    assert both.handler_for(BOX, "other.example.com", Effects()) == B
    other = Identity("another")
    assert both.handler_for(other, "api.example.com", Effects()) == C
    assert both.handler_for(other, "other.example.com", Effects()) == D
    assert both.handler_for(BOX, "api.example.com", Effects(handlers=(D,))) == D
    # A handler for the host, of the module, comes before the sandbox's handler for all hosts.
    assert Outbound({}, choice(api=C), {"box": choice(B)}).handler_for(BOX, "api.example.com", Effects()) == C


def test_the_most_specific_pattern_decides() -> None:
    patterns = {"*.example.com": A, "**.example.com": B, "api.example.com": C}
    static = HandlerChoice({parse_host_pattern(text): use for text, use in patterns.items()})
    assert static.for_host("api.example.com") == C
    assert static.for_host("www.example.com") == A
    assert static.for_host("a.b.example.com") == B
    assert static.for_host("example.com") is None
    assert static.for_host("evilexample.com") is None


def test_a_choice_is_put_and_forgotten() -> None:
    chosen = Outbound({"a": 0}).with_choice("box", choice(A))
    assert chosen.chosen.keys() == {"box"}
    assert chosen.names == ("a",)
    assert not chosen.with_choice("box", NO_CHOICE).chosen
    assert chosen.with_choice("other", choice(B)).chosen.keys() == {"box", "other"}
