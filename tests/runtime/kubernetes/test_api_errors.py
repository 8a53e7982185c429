"""Errors of the API server, as users of sandboxes see them."""

from __future__ import annotations

import pytest

from egress.cluster.api_call import ApiRefusedError
from egress.errors import UnreadableError, WireError
from egress.runtime.errors import EngineError, EngineUnavailableError
from egress.runtime.kubernetes.api_errors import translated_errors


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (ApiRefusedError("answers 403", "ask", 403, "Forbidden"), EngineError, "answers 403"),
        (UnreadableError("no answer", "wait"), EngineUnavailableError, "no answer"),
        (WireError("a broken frame"), EngineError, "something else than Kubernetes"),
    ],
)
def test_an_error_keeps_its_cause(raised: Exception, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message), translated_errors():
        raise raised


def test_another_error_passes() -> None:
    with pytest.raises(KeyError), translated_errors():
        raise KeyError
