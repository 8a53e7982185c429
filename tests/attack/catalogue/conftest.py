"""The lab of this run, and the two proxies that every case is tried on.

One lab a worker: its networks are its own, so any number of them run side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.attack.catalogue import extended_rules, proxy_entries
from tests.attack.lab.harm import must_be_none
from tests.attack.lab.lab import Lab
from tests.attack.lab.network import NoLabError
from tests.attack.lab.proxies import Egress, Naive, Proxy, running

UNDER_CI = bool(os.environ.get("CI"))  # noqa: TID251 - as tests/conftest.py asks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the night the naive twin of every case but the first of each kind of harm.

    The twin proves the case and the lab, not Egress: it can change only with them. A lab that goes blind is
    seen by its own tests at once.
    """
    shown: set[object] = set()
    for item in sorted(items, key=lambda item: item.nodeid):
        harm = getattr(getattr(item, "function", None), "harm", None)
        if harm is None or getattr(item, "callspec").params.get("proxy") != "naive":  # noqa: B009
            continue
        if harm in shown:
            item.add_marker("nightly")
        shown.add(harm)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """An internet of this worker's own; without one, cases are left out, and fail under CI."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    try:
        made.__enter__()
    except NoLabError as error:
        if UNDER_CI:
            pytest.fail(f"no lab can be made here: {error}", pytrace=False)
        pytest.skip(f"no lab can be made here: {error}")
    try:
        yield made
    finally:
        made.__exit__()


@pytest.fixture(scope="session")
def egress(lab: Lab) -> Iterator[Egress]:
    """One Egress for all cases that need none of their own; at its end, all that it did is looked at."""
    with lab.egress() as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
    must_be_none(found)


@pytest.fixture(scope="session")
def everywhere(lab: Lab) -> Iterator[Egress]:
    """One Egress with all ways in that there are, for files whose `egress` it is; see `entries`."""
    with lab.egress(proxy_entries.rules(lab), *proxy_entries.ARGUMENTS, free=proxy_entries.PORTS) as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
    must_be_none(found)


@pytest.fixture(scope="session")
def wide(lab: Lab) -> Iterator[Egress]:
    """One Egress with secrets of all kinds, every treatment, and presets; see `wider`."""
    with running(extended_rules.make(lab)) as proxy:
        lab.begin(proxy)
        yield proxy
        assert "Traceback" not in proxy.said
        assert [each for each in proxy.records("exchange") if each["code"] == "internal"] == []
        found = lab.at_the_end(proxy)
    must_be_none(found)


@pytest.fixture(scope="session")
def naive(lab: Lab) -> Iterator[Naive]:
    with lab.naive() as proxy:
        yield proxy


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Proxy:
    """The one that a case is tried on: `egress` or `naive`."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Proxy)
    return found
