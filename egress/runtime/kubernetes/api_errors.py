"""Errors of the API server as errors of a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from egress.cluster.api_call import ApiRefusedError
from egress.errors import UnreadableError, WireError
from egress.runtime.errors import EngineError, EngineUnavailableError


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise `EngineError` for what the API server refuses, `EngineUnavailableError` where none answers."""
    try:
        yield
    except ApiRefusedError as error:
        raise EngineError(error.message, error.hint) from None
    except UnreadableError as error:
        raise EngineUnavailableError(error.message, error.hint) from None
    except (WireError, msgspec.ValidationError):
        raise EngineError(
            "the API server sent something else than Kubernetes does", "check its address and its version"
        ) from None
