"""A sandbox where no policy is enforced: it never starts, and the error quotes its gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.runtime.errors import GatewayError
from egress.runtime.kubernetes.runtime import KubernetesRuntime
from egress.runtime.spec import Spec
from tests.cluster.shipped_fence import Fence
from tests.cluster.trials.test_sandboxes import SETTINGS, api_of

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]


def test_without_a_fence_no_sandbox_starts_and_the_gate_says_why(fence: Fence, tmp_path: Path) -> None:
    runtime = KubernetesRuntime(api_of(fence), tmp_path / "home", SETTINGS)
    try:
        with pytest.raises(GatewayError, match=r"gate of the sandbox one lets nothing start: .*answer"):
            runtime.create(Spec(name="one", image="egress-sandbox:latest"))
        assert runtime.list() == ()
    finally:
        runtime.close()
