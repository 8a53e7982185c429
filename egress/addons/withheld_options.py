"""mitmproxy's options, all of which Egress withholds.

Options of mitmproxy relay raw TCP, skip the check of certificates, pass hosts through that a pattern names,
and load scripts. Its TLS layers read none of these. Should a later release read one, `NoOptions` raises, and
the connection ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Never, cast

from mitmproxy.net import tls

from egress.errors import UsageError

if TYPE_CHECKING:
    from mitmproxy.options import Options


class NoOptions:
    """The place of mitmproxy's `Options` in a context; reading an option raises `RuntimeError`."""

    __slots__ = ()
    proxy_debug: Final = False
    """The one option that layers read: whether they log all that passes, secrets among it."""

    def __getattr__(self, name: str) -> Never:
        # No AttributeError: `hasattr`, and `getattr` with a default, would take it for an option that is off.
        raise RuntimeError(f"mitmproxy asked for its option {name}")


NO_OPTIONS: Final = cast("Options", NoOptions())


def check_key_log() -> None:
    """Raise `UsageError` if mitmproxy would write the keys of TLS connections to a file."""
    if tls.log_master_secret is not None:
        raise UsageError(
            "the keys of TLS connections would be written to a file",
            "Unset SSLKEYLOGFILE and MITMPROXY_SSLKEYLOGFILE.",
        )
