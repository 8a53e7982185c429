"""An admission that is nobody's: so an outfit can be looked at before there is anybody to wear it."""

from __future__ import annotations

import functools

from egress.ca import Authority
from egress.runtime.gateway import Admission


@functools.cache
def admission() -> Admission:
    """With the certificate of an authority that signs nothing: its key is not kept."""
    return Admission("sample", Authority.create("sample", now=0).certificate_pem.decode("ascii"))
