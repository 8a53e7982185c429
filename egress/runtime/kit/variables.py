"""The variables of the kit, each with its readers.

Both spellings of a proxy variable are set: some programs read one, some the other. `HTTP_PROXY` is set
whether the rules allow plain HTTP or not: Ruby's net/http takes its proxy for `https://` from there, and a
request denied at the proxy gets an error message, while a request without a proxy times out.

`NO_PROXY` names the sandbox itself and nothing else: servers inside are for programs inside, and every other
host is reached through the proxy only. The image's own value is overridden.

Deliberately not set: `NODE_OPTIONS`, because a Node that does not know an option does not start;
`YARN_HTTPS_CA_FILE_PATH`, because a Yarn that does not know it does not start; `UV_NATIVE_TLS`,
`UV_SYSTEM_CERTS` and `DENO_TLS_CA_STORE`, because the roots of `SSL_CERT_FILE` and `DENO_CERT` are trusted
without them; `GIT_CONFIG_COUNT`, because git needs no setting and programs inside count there themselves;
anything that disables verification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.kit.java_trust_store import STORE_PASSWORD
from egress.runtime.kit.paths import KitPaths
from egress.runtime.proxy_address import ProxyAddress

LOOPBACK_HOSTS: Final = "localhost,127.0.0.1,::1"


@dataclass(frozen=True, slots=True)
class KitVariable:
    """A variable, with `{places}` to fill in."""

    name: str
    value: str
    read_by: str


_JVM: Final = " ".join(
    (
        "-Dhttp.proxyHost={proxy_host} -Dhttp.proxyPort={proxy_port}",
        "-Dhttps.proxyHost={proxy_host} -Dhttps.proxyPort={proxy_port}",
        "-Djavax.net.ssl.trustStore={trust_store} -Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}",
        # Newer Mavens read the properties above only if told: 3.9 by the first option, 4 by the second.
        "-Daether.connector.http.useSystemProperties=true",
        "-Daether.transport.apache.useSystemProperties=true",
    )
)

PROXY_VARIABLES: Final = (
    KitVariable("HTTPS_PROXY", "{proxy}", "most programs"),
    KitVariable("https_proxy", "{proxy}", "most programs"),
    KitVariable("HTTP_PROXY", "{proxy}", "most programs, and Ruby's net/http for https"),
    KitVariable("http_proxy", "{proxy}", "most programs, and Ruby's net/http for https"),
    KitVariable("WSS_PROXY", "{proxy}", "aiohttp"),
    KitVariable("wss_proxy", "{proxy}", "aiohttp"),
    KitVariable("WS_PROXY", "{proxy}", "aiohttp"),
    KitVariable("ws_proxy", "{proxy}", "aiohttp"),
    KitVariable("NO_PROXY", LOOPBACK_HOSTS, "most programs"),
    KitVariable("no_proxy", LOOPBACK_HOSTS, "most programs"),
    KitVariable("YARN_HTTPS_PROXY", "{proxy}", "Yarn from 2 on, which reads no other"),
    KitVariable("YARN_HTTP_PROXY", "{proxy}", "Yarn from 2 on, which reads no other"),
    KitVariable("NODE_USE_ENV_PROXY", "1", "Node from 22.21 and 24.5 on: fetch, http, https"),
    KitVariable("PERL_LWP_ENV_PROXY", "1", "LWP of Perl, which reads the proxy only then"),
)
"""The proxy's address."""

REPLACING_VARIABLES: Final = (
    KitVariable("SSL_CERT_FILE", "{bundle}", "OpenSSL and what is built on it, Go, rustls, uv, httpx"),
    # Unset, OpenSSL would read the image's own folder of roots, which may be old.
    KitVariable("SSL_CERT_DIR", "{hashed}", "OpenSSL and what is built on it, Go, rustls"),
    KitVariable("CURL_CA_BUNDLE", "{bundle}", "curl; requests, behind the one below"),
    KitVariable("REQUESTS_CA_BUNDLE", "{bundle}", "requests and what is built on it"),
    KitVariable("PIP_CERT", "{bundle}", "pip"),
    KitVariable("GIT_SSL_CAINFO", "{bundle}", "git"),
    KitVariable("CARGO_HTTP_CAINFO", "{bundle}", "cargo"),
    KitVariable("npm_config_cafile", "{bundle}", "npm and pnpm, where the image configures another one"),
    KitVariable("PERL_LWP_SSL_CA_FILE", "{bundle}", "LWP of Perl"),
    KitVariable("AWS_CA_BUNDLE", "{bundle}", "the AWS command line, botocore"),
    KitVariable("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "{bundle}", "gcloud"),
    KitVariable("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "{bundle}", "gRPC on its C core"),
    KitVariable("HTTPLIB2_CA_CERTS", "{bundle}", "httplib2, and clients of Google that stand on it"),
    KitVariable("NIX_SSL_CERT_FILE", "{bundle}", "Nix, whose images set it to a bundle of theirs"),
)
"""Trusted roots, for programs that replace their own by these."""

ADDING_VARIABLES: Final = (
    KitVariable("NODE_EXTRA_CA_CERTS", "{certificate}", "Node, Bun, Deno from 2.8 on"),
    KitVariable("DENO_CERT", "{certificate}", "Deno"),
)
"""The authority, for programs that add it to their own roots."""

FILE_VARIABLES: Final = (
    KitVariable("WGETRC", "{wgetrc}", "wget"),
    KitVariable("APT_CONFIG", "{apt}", "apt, where the file cannot lie in its own folder"),
    # The part before the colon stands for the folder that PHP was built with.
    KitVariable("PHP_INI_SCAN_DIR", ":{php}", "PHP"),
    KitVariable("JAVA_TOOL_OPTIONS", _JVM, "every JVM; it says so on standard error when it starts"),
)
"""Variables that name a settings file, or consist of settings."""

KIT_VARIABLES: Final = (*PROXY_VARIABLES, *REPLACING_VARIABLES, *ADDING_VARIABLES, *FILE_VARIABLES)


def variables(folder: KitPaths, proxy: ProxyAddress) -> dict[str, str]:
    """The variables of a kit in this folder, with this address of the proxy."""
    places = {
        "proxy": proxy.url,
        "proxy_host": proxy.host,
        "proxy_port": str(proxy.port),
        "certificate": folder.certificate,
        "bundle": folder.bundle,
        "hashed": folder.hashed,
        "trust_store": folder.trust_store,
        "wgetrc": folder.wgetrc,
        "apt": folder.apt,
        "php": folder.php,
    }
    return {variable.name: variable.value.format_map(places) for variable in KIT_VARIABLES}
