"""mitmproxy's TLS layers, imported without its layers for protocols that Egress never lets it speak.

The package `mitmproxy.proxy.layers` imports all of its modules, among them QUIC, DNS and mitmproxy's own
HTTP, with 350 modules of other libraries below them. Here the package is entered without running its
`__init__`, which runs at the first use of a name that it defines: code that wants the whole package gets it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_PACKAGE: Final = "mitmproxy.proxy.layers"


def _enter_package() -> None:
    """Put the package among the loaded modules, with its `__init__` still to run."""
    spec = importlib.util.find_spec(_PACKAGE)
    # Where another part of this process has loaded the package, it is whole already.
    if _PACKAGE in sys.modules or spec is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__getattr__ = _loading(package, spec)  # type: ignore[method-assign]
    sys.modules[_PACKAGE] = package
    # The import system sets this attribute for packages that it loads itself.
    sys.modules["mitmproxy.proxy"].layers = package  # type: ignore[attr-defined]


def _loading(package: ModuleType, spec: ModuleSpec) -> Callable[[str], object]:
    def load(name: str) -> object:
        # Modules of the package are found by the import system, and special names are never in `__init__`.
        if name.startswith("__") or importlib.util.find_spec(f"{_PACKAGE}.{name}") is not None:
            raise AttributeError(name)
        if "__getattr__" in vars(package):
            del package.__getattr__
            if spec.loader is not None:
                spec.loader.exec_module(package)
        return getattr(package, name)

    return load


_enter_package()

from mitmproxy.proxy.layers.tls import (  # noqa: E402 - only now without the other layers
    ClientTLSLayer,
    ServerTLSLayer,
    TlsClienthelloHook,
    TlsFailedClientHook,
    TLSLayer,
    TlsStartClientHook,
    TlsStartServerHook,
)

__all__ = [
    "ClientTLSLayer",
    "ServerTLSLayer",
    "TLSLayer",
    "TlsClienthelloHook",
    "TlsFailedClientHook",
    "TlsStartClientHook",
    "TlsStartServerHook",
]
