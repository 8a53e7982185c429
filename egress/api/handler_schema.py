"""The values of handler choices: which functions of the operator are asked about requests of a sandbox."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from egress.api.schema import ApiRequest, ApiView, Text

MAX_CHOSEN_HOSTS = 256


class ChosenHandler(ApiRequest, frozen=True):
    """A handler that is loaded, and its parameters."""

    use: Text
    """The name of the handler."""
    params: dict[str, Any] = field(default_factory=dict)
    """What the handler gets as `context.params`; at most 16 KiB as JSON."""


class HandlerSettings(ApiRequest, frozen=True):
    """The handlers of a sandbox. They take the place of those that were chosen for it before."""

    by_host: Annotated[dict[str, ChosenHandler], Meta(max_length=MAX_CHOSEN_HOSTS)] = field(
        default_factory=dict
    )
    """Handlers by host pattern, such as `api.example.com` or `*.example.com`."""
    catch_all: ChosenHandler | None = None
    """The handler for all other hosts on which neither the rules nor the module of handlers name one."""


class HandlersView(ApiView, frozen=True):
    """The handlers of a sandbox."""

    loaded: tuple[str, ...]
    """The names of the handlers that can be chosen."""
    by_host: dict[str, ChosenHandler]
    catch_all: ChosenHandler | None = None
