"""The variables of the kit, each with who reads it.

Both spellings of a proxy variable are set: some programs read the one, some the other. `HTTP_PROXY` is set
whether or not the rules open plain HTTP: net/http of Ruby takes its proxy for `https://` from there, and a
request that is denied at the door is told why, while one without a way is left to time out.

`NO_PROXY` names the sandbox itself and nothing else. A server that was started inside is for the programs
inside, and no other host can be reached without the door; what the image says there is overruled.

Not set, on purpose: `NODE_OPTIONS`, because a Node that does not know an option does not start;
`YARN_HTTPS_CA_FILE_PATH`, because a Yarn that does not know it does not either; `UV_NATIVE_TLS`,
`UV_SYSTEM_CERTS` and `DENO_TLS_CA_STORE`, because what `SSL_CERT_FILE` and `DENO_CERT` name is trusted
without them; `GIT_CONFIG_COUNT`, because git needs nothing of it and programs inside count there
themselves; anything that turns verification off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.kit.java_trust_store import STORE_PASSWORD
from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.proxy_address import ProxyAddress

LOOPBACK_HOSTS: Final = "localhost,127.0.0.1,::1"


@dataclass(frozen=True, slots=True)
class KitVariable:
    """One variable, with `{places}` to be filled in."""

    name: str
    value: str
    read_by: str


_JVM: Final = " ".join(
    (
        "-Dhttp.proxyHost={proxy_host} -Dhttp.proxyPort={proxy_port}",
        "-Dhttps.proxyHost={proxy_host} -Dhttps.proxyPort={proxy_port}",
        "-Djavax.net.ssl.trustStore={trust_store} -Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}",
        # Newer Mavens look at those above only when they are told to: 3.9 by the first, 4 by the second.
        "-Daether.connector.http.useSystemProperties=true",
        "-Daether.transport.apache.useSystemProperties=true",
    )
)

PROXY_VARIABLES: Final = (
    KitVariable("HTTPS_PROXY", "{proxy}", "nearly everybody"),
    KitVariable("https_proxy", "{proxy}", "nearly everybody"),
    KitVariable("HTTP_PROXY", "{proxy}", "nearly everybody, and net/http of Ruby for https"),
    KitVariable("http_proxy", "{proxy}", "nearly everybody, and net/http of Ruby for https"),
    KitVariable("WSS_PROXY", "{proxy}", "aiohttp"),
    KitVariable("wss_proxy", "{proxy}", "aiohttp"),
    KitVariable("WS_PROXY", "{proxy}", "aiohttp"),
    KitVariable("ws_proxy", "{proxy}", "aiohttp"),
    KitVariable("NO_PROXY", LOOPBACK_HOSTS, "nearly everybody"),
    KitVariable("no_proxy", LOOPBACK_HOSTS, "nearly everybody"),
    KitVariable("YARN_HTTPS_PROXY", "{proxy}", "Yarn from 2 on, which reads no other"),
    KitVariable("YARN_HTTP_PROXY", "{proxy}", "Yarn from 2 on, which reads no other"),
    KitVariable("NODE_USE_ENV_PROXY", "1", "Node from 22.21 and 24.5 on: fetch, http, https"),
    KitVariable("PERL_LWP_ENV_PROXY", "1", "LWP of Perl, which reads the proxy only then"),
)
"""The way to the door."""

REPLACING_VARIABLES: Final = (
    KitVariable("SSL_CERT_FILE", "{bundle}", "OpenSSL and what is built on it, Go, rustls, uv, httpx"),
    # Unset it would mean the image's own folder of roots, which may be old, or what the image says instead.
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
"""Whom to trust, for programs that then trust nobody else."""

ADDING_VARIABLES: Final = (
    KitVariable("NODE_EXTRA_CA_CERTS", "{certificate}", "Node, Bun, Deno from 2.8 on"),
    KitVariable("DENO_CERT", "{certificate}", "Deno"),
)
"""Whom to trust besides."""

FILE_VARIABLES: Final = (
    KitVariable("WGETRC", "{wgetrc}", "wget"),
    KitVariable("APT_CONFIG", "{apt}", "apt, where the file cannot lie in its own folder"),
    # What stands in front of the colon is the folder that PHP was built with.
    KitVariable("PHP_INI_SCAN_DIR", ":{php}", "PHP"),
    KitVariable("JAVA_TOOL_OPTIONS", _JVM, "every JVM; it says so on standard error when it starts"),
)
"""What names a file of settings, or consists of them."""

KIT_VARIABLES: Final = (*PROXY_VARIABLES, *REPLACING_VARIABLES, *ADDING_VARIABLES, *FILE_VARIABLES)


def variables(folder: KitPaths, door: ProxyAddress) -> dict[str, str]:
    """All of them, for a kit in this folder and this door."""
    places = {
        "proxy": door.url,
        "proxy_host": door.host,
        "proxy_port": str(door.port),
        "certificate": folder.certificate,
        "bundle": folder.bundle,
        "hashed": folder.hashed,
        "trust_store": folder.trust_store,
        "wgetrc": folder.wgetrc,
        "apt": folder.apt,
        "php": folder.php,
    }
    return {variable.name: variable.value.format_map(places) for variable in KIT_VARIABLES}
