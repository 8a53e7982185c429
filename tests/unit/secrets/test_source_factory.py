"""Which source a reference of the rules stands for, and which cannot be had."""

from __future__ import annotations

import pytest

from egress.errors import UnreadableError
from egress.rules.compile.secrets import RESERVED_SCHEMES, SCHEMES
from egress.secrets.child_environment import ChildEnvironment
from egress.secrets.command import CommandSecretSource
from egress.secrets.file import FileSecretSource
from egress.secrets.source_factory import SourceFactory, VariableSecretSource, unresolvable_secrets
from tests.unit.secrets.secret_samples import captured, spec


def sources(*, container: bool = False) -> SourceFactory:
    return SourceFactory(captured(), ChildEnvironment({}), container, 1.0)


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [("env", VariableSecretSource), ("file", FileSecretSource), ("command", CommandSecretSource)],
)
def test_each_scheme_of_this_version_has_its_source(scheme: str, kind: type) -> None:
    assert isinstance(sources().of(spec("x", scheme, "/x")), kind)
    assert unresolvable_secrets([spec("x", scheme, "/x")]) == ()


@pytest.mark.parametrize("scheme", [*sorted(RESERVED_SCHEMES), "gopher"])
def test_a_scheme_without_a_source_says_so_and_names_the_cure(scheme: str) -> None:
    """A rule file with such a scheme does not load; the start and the source refuse it all the same."""
    (found,) = unresolvable_secrets([spec("x", scheme, "y")])
    assert (found.name, found.cause) == ("x", f"unknown kind of source `{scheme}:`")
    assert "`command:`" in found.cure
    source = sources().of(spec("x", scheme, "y"))
    with pytest.raises(UnreadableError, match="unknown kind of source"):
        source.fetch()
    source.stop()
    assert source.lifetime(60) == (0, 0)


def test_every_scheme_of_the_rule_language_is_resolved() -> None:
    """Were one not, `egress check` would pass a rule file whose requests are then denied."""
    assert unresolvable_secrets(spec(s, s, "/x") for s in SCHEMES) == ()


def test_a_variable_is_refused_in_a_container() -> None:
    (found,) = unresolvable_secrets([spec("x", "env", "TOKEN"), spec("y", "file", "/y")], container=True)
    assert found.name == "x"
    assert "`file:`" in found.cure
    with pytest.raises(UnreadableError, match="refused in a container"):
        sources(container=True).of(spec("x", "env", "TOKEN")).fetch()
