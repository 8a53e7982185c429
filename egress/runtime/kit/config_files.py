"""Configuration files for programs that no variable reaches, each with the missing settings only."""

from __future__ import annotations

import base64
import json

from egress.runtime.kit.paths import KitPaths
from egress.runtime.proxy_address import ProxyAddress


def wgetrc(folder: KitPaths) -> str:
    """For wget, which reads `SSL_CERT_FILE` only if it is built with OpenSSL."""
    return f"ca_certificate = {folder.bundle}\n"


def apt(folder: KitPaths, proxy: ProxyAddress) -> str:
    """The CA, and the proxy as well: `sudo` drops the variables."""
    return (
        f'Acquire::http::Proxy "{proxy.url}";\n'
        f'Acquire::https::Proxy "{proxy.url}";\n'
        f'Acquire::https::CAInfo "{folder.bundle}";\n'
    )


def php(folder: KitPaths) -> str:
    """For PHP's curl extension, which reads its roots from `php.ini` only."""
    return f"curl.cainfo = {folder.bundle}\nopenssl.cafile = {folder.bundle}\n"


def chromium(authority: bytes) -> str:
    """The policy of Chromium and its derivatives, which takes a certificate instead of a path.

    The policy adds to the browser's own roots. It lies outside of the user's home, so the user cannot change
    it.
    """
    return _json({"CACertificates": [base64.b64encode(authority).decode("ascii")]})


def firefox(folder: KitPaths) -> str:
    """The policy of Firefox, which also adds to the browser's own roots."""
    return _json({"policies": {"Certificates": {"Install": [folder.certificate]}}})


def maven(proxy: ProxyAddress) -> str:
    """For a Maven without JVM properties: `mvn --global-settings`. Other versions read the JVM's properties.

    The file replaces Maven's own global settings, so it repeats their one rule: no repositories over plain
    HTTP.
    """
    return f"""\
<settings>
  <mirrors>
    <mirror>
      <id>maven-default-http-blocker</id>
      <mirrorOf>external:http:*</mirrorOf>
      <url>http://0.0.0.0/</url>
      <blocked>true</blocked>
    </mirror>
  </mirrors>
  <proxies>
{_maven_proxy("https", proxy)}{_maven_proxy("http", proxy)}  </proxies>
</settings>
"""


def _json(policy: object) -> str:
    return f"{json.dumps(policy, indent=2)}\n"


def _maven_proxy(protocol: str, proxy: ProxyAddress) -> str:
    return f"""\
    <proxy>
      <id>egress-{protocol}</id>
      <active>true</active>
      <protocol>{protocol}</protocol>
      <host>{proxy.host}</host>
      <port>{proxy.port}</port>
      <nonProxyHosts>localhost|127.*|[::1]</nonProxyHosts>
    </proxy>
"""
