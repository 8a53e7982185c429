"""A question to the proxy of a fleet, over its control socket: what it says of itself, and of texts."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.runtime.errors import GatewayError
from egress.runtime.gateway import CONTROL
from egress.runtime.unix import UnixConnection, opened

_PATIENCE: Final = 5.0
_LONG_PATIENCE: Final = 30.0
_MOST_ANSWER: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    said: Mapping[str, object]
    """Empty where it was no object."""


def ask(folder: Path, path: str) -> Answer:
    """Ask the proxy whose sockets are in this folder. Raises `GatewayError` where there is no answer."""
    return _asked(folder, "GET", path, None, _PATIENCE)


def held(folder: Path, texts: Sequence[str]) -> Answer:
    """Ask it which of these texts hold a secret that it knows; it answers with their places in the list.

    It looks for values that it does not have yet, which may take a while. Raises as `ask` does.
    """
    return _asked(folder, "POST", "/held", json.dumps({"texts": list(texts)}), _LONG_PATIENCE)


def _asked(folder: Path, method: str, path: str, body: str | None, patience: float) -> Answer:
    connection = UnixConnection("egress", lambda: opened(folder / CONTROL, patience))
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return Answer(answer.status, _object(answer.read(_MOST_ANSWER)))
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
        raise GatewayError(
            f"the proxy of these sandboxes does not answer: {reason}", "look into its log"
        ) from None
    finally:
        connection.close()


def _object(data: bytes) -> Mapping[str, object]:
    found = json.loads(data)
    return found if isinstance(found, dict) else {}
