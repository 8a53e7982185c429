"""The certificate of a server of ours: that of the API's port, and that of previews."""

from __future__ import annotations

import ssl
from pathlib import Path

from egress.errors import UnreadableError, reason_of


def server_context(certificate: Path, key: Path, options: str) -> ssl.SSLContext:
    """Return the context of a server. `options` name the files in the hint of an error.

    Raises `UnreadableError`.
    """
    # TLS 1.2 is the oldest version of such a context.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password instead of a prompt: nobody may be at the terminal.
        context.load_cert_chain(certificate, key, lambda: "")
    except (OSError, ValueError) as error:
        # An error of the library is one of the system too, with a text about its own parts.
        is_of_system = isinstance(error, OSError) and not isinstance(error, ssl.SSLError)
        reason = (
            reason_of(error)
            if is_of_system
            else "the files are no certificate and its key, without a password"
        )
        raise UnreadableError(
            f"the certificate {certificate} cannot be used: {reason}",
            f"name a certificate chain and its key in PEM with {options}",
        ) from None
    return context
