"""What tests with real namespaces share.

Where the kernel refuses them they are left out with a word; under CI they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace import kernel_support
from tests.conftest import LEFT_OUT, UNDER_CI
from tests.runtime.namespace.namespace_lab import NamespaceLab


@pytest.fixture(scope="session")
def refusal() -> str:
    try:
        kernel_support.check()
    except UnsupportedError as error:
        return str(error)
    return ""


@pytest.fixture
def namespaces(refusal: str, request: pytest.FixtureRequest) -> None:
    """That they can be made."""
    if refusal and UNDER_CI:
        pytest.fail(f"does not allow user namespaces: {refusal}", pytrace=False)
    if refusal:
        request.node.user_properties.append((LEFT_OUT, "user namespaces"))
        pytest.skip(refusal)


@pytest.fixture(scope="module")
def shared(refusal: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceLab | None]:
    if refusal:
        yield None
        return
    with NamespaceLab(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def house(namespaces: None, shared: NamespaceLab | None) -> NamespaceLab:
    """One for all tests of a file: they leave no sandbox behind that others could mind."""
    assert shared is not None
    return shared


@pytest.fixture
def own_house(namespaces: None, tmp_path: Path) -> Iterator[NamespaceLab]:
    """One for a single test, which may do with it what it likes."""
    with NamespaceLab(tmp_path) as house:
        yield house
