"""Configuration files for programs that no variable reaches, each with what was missing and no more."""

from __future__ import annotations

import base64
import json

from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.proxy_address import ProxyAddress


def wgetrc(folder: KitPaths) -> str:
    """For wget, which reads `SSL_CERT_FILE` only where it is built with OpenSSL."""
    return f"ca_certificate = {folder.bundle}\n"


def apt(folder: KitPaths, door: ProxyAddress) -> str:
    """The proxy stands here as well: `sudo` drops the variables."""
    return (
        f'Acquire::http::Proxy "{door.url}";\n'
        f'Acquire::https::Proxy "{door.url}";\n'
        f'Acquire::https::CAInfo "{folder.bundle}";\n'
    )


def php(folder: KitPaths) -> str:
    """For the curl extension, whose only word on whom to trust is in `php.ini`."""
    return f"curl.cainfo = {folder.bundle}\nopenssl.cafile = {folder.bundle}\n"


def chromium(authority: bytes) -> str:
    """The policy of Chromium and what is built on it, which takes a certificate and no path to one.

    It adds to the roots that the browser brings. The home of its user is not needed, and nobody can write it.
    """
    return _json({"CACertificates": [base64.b64encode(authority).decode("ascii")]})


def firefox(folder: KitPaths) -> str:
    """The policy of Firefox. It adds as well."""
    return _json({"policies": {"Certificates": {"Install": [folder.certificate]}}})


def maven(door: ProxyAddress) -> str:
    """For a Maven that looks at nothing else: `mvn --global-settings`. Others take the properties of the JVM.

    It takes the place of the settings that come with Maven, and so says the one thing that is said there:
    repositories that are reached in clear text are not used.
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
{_maven_proxy("https", door)}{_maven_proxy("http", door)}  </proxies>
</settings>
"""


def _json(policy: object) -> str:
    return f"{json.dumps(policy, indent=2)}\n"


def _maven_proxy(protocol: str, door: ProxyAddress) -> str:
    return f"""\
    <proxy>
      <id>egress-{protocol}</id>
      <active>true</active>
      <protocol>{protocol}</protocol>
      <host>{door.host}</host>
      <port>{door.port}</port>
      <nonProxyHosts>localhost|127.*|[::1]</nonProxyHosts>
    </proxy>
"""
