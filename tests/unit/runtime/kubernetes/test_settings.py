"""The variables that say where sandboxes are made."""

from __future__ import annotations

import pytest

from egress.proxy.settings import FOREIGN_VARIABLES
from egress.runtime.errors import SpecError
from egress.runtime.kubernetes import settings
from egress.runtime.kubernetes.settings import DEFAULT_LIFETIME, KubernetesSettings, read_settings


def test_nothing_said_is_the_current_context() -> None:
    assert read_settings({}) == KubernetesSettings("", "", (), DEFAULT_LIFETIME, "")


def test_everything_can_be_said() -> None:
    assert read_settings(
        {
            "EGRESS_KUBERNETES_CONTEXT": "home",
            "EGRESS_KUBERNETES_NAMESPACE": "agents",
            "EGRESS_KUBERNETES_BLOCKED": "10.96.0.10:53,[fd00::a]:53",
            "EGRESS_KUBERNETES_LIFETIME": "3600",
            "EGRESS_KUBERNETES_PULL_SECRET": "registry",
        }
    ) == KubernetesSettings("home", "agents", ("10.96.0.10:53", "[fd00::a]:53"), 3600, "registry")


def test_a_proxy_of_this_machine_starts_beside_these_variables() -> None:
    """It refuses every variable of Egress that nobody knows."""
    names = {value for name, value in vars(settings).items() if name.endswith("_VARIABLE")}
    assert len(names) == 5
    assert names <= FOREIGN_VARIABLES


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("LIFETIME", text) for text in ("0", "59", "-1", "1d", "9" * 30, "\u0663600")),
        *(("BLOCKED", text) for text in ("10.96.0.10", "name:53", "10.96.0.10:0", "10.96.0.10:99999", ":53")),
        ("PULL_SECRET", "a b"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(SpecError, match=f"EGRESS_KUBERNETES_{name}"):
        read_settings({f"EGRESS_KUBERNETES_{name}": value})
