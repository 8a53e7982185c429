"""The error for each reason why a pod does not start."""

from __future__ import annotations

import pytest

from egress.runtime.errors import (
    EngineError,
    GatewayError,
    ImageMissingError,
    SandboxError,
    UnsupportedError,
)
from egress.runtime.kubernetes.pod_status import PodTrouble, TroubleKind
from egress.runtime.kubernetes.pod_trouble import trouble_error
from egress.runtime.spec import Spec


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("gate", GatewayError),
        ("gate-image", GatewayError),
        ("image", ImageMissingError),
        ("shell", UnsupportedError),
        ("container", EngineError),
        ("pod", EngineError),
    ],
)
def test_each_reason_has_its_error_and_a_cure(kind: TroubleKind, expected: type[SandboxError]) -> None:
    found = trouble_error(Spec(name="one", image="image:1"), PodTrouble(kind, "the reason"))
    assert isinstance(found, expected)
    assert "one" in found.message or "image:1" in found.message
    assert found.hint
