"""A case of the catalogue: tried on both proxies, with the positive control around it.

    @case("S-01", "a host that no rule names", Harm.REACHED)
    def test_a_host_that_no_rule_names(lab: Lab, proxy: Proxy) -> None:
        answer = proxy.ask(EVIL, request(EVIL))
        proxy.expects(answer, (403, "host.unknown"))

Against Egress nothing may be found, neither by the case nor by `lab.harms`, and `proxy.expects` holds it to
its documented answers. Against the naive proxy the named harm must be found: a case that finds nothing there
proves nothing here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.attack.lab.harm import Finding, Harm, HarmDoneError, must_be_none
from tests.attack.lab.lab import Lab
from tests.attack.lab.proxies import Proxy

Place = tuple[str, int]
Attack = Callable[[Lab, Proxy], None]


def case(
    ids: str,
    title: str,
    harm: Harm | None = None,
    *,
    naive: str = "",
    twin: str = "",
    also: tuple[Place, ...] = (),
) -> Callable[[Attack], Attack]:
    """Make a test of an attack.

    `ids` are the cases of the catalogue that it holds, such as "S-08" or "S-21 S-22"; `harm` is what the
    naive proxy must show. `naive` says instead why there is nothing to try on it: then `twin` names the test
    beside it that shows in another way that the harm would be found. `also` are places that may be reached.
    """
    if (harm is None) != bool(naive and twin):
        raise ValueError(
            f"{ids}: name the harm that the naive proxy shows, or why it shows none and the twin"
        )

    def decorate(attack: Attack) -> Attack:
        @functools.wraps(attack)
        def run(lab: Lab, proxy: Proxy) -> None:
            found = _play(lab, proxy, attack, harm, also)
            if proxy.name == "egress":
                must_be_none(found, f"{ids}, {title}")
            else:
                seen = {finding.harm for finding in found}
                assert harm in seen, f"{ids}, {title}: the naive proxy shows {sorted(seen)} and not {harm}"

        run.harm = harm  # type: ignore[attr-defined] # by it the gate chooses the twins that it runs
        proxies = ["egress"] if naive else ["egress", "naive"]
        return pytest.mark.parametrize("proxy", proxies, indirect=True)(run)

    return decorate


def _play(
    lab: Lab, proxy: Proxy, attack: Attack, harm: Harm | None, also: tuple[Place, ...]
) -> list[Finding]:
    lab.control(proxy)
    lab.begin(proxy)
    found: list[Finding] = []
    try:
        attack(lab, proxy)
    except Finding as finding:
        found.append(finding)
    except AssertionError as error:
        harms = [*found, *lab.harms(proxy, also)]
        if harms and proxy.name == "egress":
            raise HarmDoneError(str(error), harms) from error
        for each in harms:
            error.add_note(str(each))
        raise
    # What was on its way is there when this has been there and back; or it shows when the lab is left.
    lab.control(proxy)

    def seen() -> bool:
        return harm in {each.harm for each in (*found, *lab.harms(proxy, also))}

    lab.wait(proxy, seen)
    harms = lab.harms(proxy, also)
    proxy.hang_up()
    return [*found, *harms]
