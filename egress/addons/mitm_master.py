"""Our own mitmproxy `Master`: a short fixed list of add-ons, and options that cannot open anything.

No add-on of mitmproxy's own is loaded. Its defaults would answer `http://mitm.it`, relay raw TCP,
resolve names before any rule was asked, and pass hosts through that a pattern names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mitmproxy.master import Master
from mitmproxy.net import tls
from mitmproxy.options import Options

from egress.errors import UsageError

MUST_BE_OFF: Final = (
    "allow_hosts",
    "emudhra",
    "emudhra_old",
    "ignore_hosts",
    "onboarding",
    "rawtcp",
    "scripts",
    "ssl_insecure",
    "tcp_hosts",
    "udp_hosts",
    "upstream_cert",
)
"""Options that would let something pass, or be trusted, that no rule has looked at."""


def build_master(addons: Sequence[object]) -> Master:
    """A master with these add-ons and no others, on options that have been checked."""
    master = Master(safe_options())
    master.addons.add(*addons)  # type: ignore[no-untyped-call]
    check_options(master.options)
    return master


def safe_options() -> Options:
    """Mitmproxy's options with everything off that must be."""
    options = Options()
    options.update_known(upstream_cert=False, ssl_insecure=False, rawtcp=False)  # type: ignore[no-untyped-call]
    return options


def check_options(options: Options) -> None:
    """Raise `UsageError` where an option is on that must be off, or secrets of TLS would be logged."""
    for name in MUST_BE_OFF:
        if name in options and getattr(options, name):
            raise UsageError(f"the option `{name}` of mitmproxy is on", "Egress does not run with it.")
    if tls.log_master_secret is not None:
        raise UsageError(
            "the keys of TLS connections would be written to a file",
            "Unset SSLKEYLOGFILE and MITMPROXY_SSLKEYLOGFILE.",
        )
