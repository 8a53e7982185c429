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

from egress.runtime.kit.door import Door
from egress.runtime.kit.folder import Folder
from egress.runtime.kit.truststore import PASSWORD

LOOPBACK: Final = "localhost,127.0.0.1,::1"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, with `{places}` to be filled in."""

    name: str
    value: str
    read_by: str


_JVM: Final = " ".join(
    (
        "-Dhttp.proxyHost={proxy_host} -Dhttp.proxyPort={proxy_port}",
        "-Dhttps.proxyHost={proxy_host} -Dhttps.proxyPort={proxy_port}",
        "-Djavax.net.ssl.trustStore={trust_store} -Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        # Newer Mavens look at those above only when they are told to: 3.9 by the first, 4 by the second.
        "-Daether.connector.http.useSystemProperties=true",
        "-Daether.transport.apache.useSystemProperties=true",
    )
)

PROXY: Final = (
    Variable("HTTPS_PROXY", "{proxy}", "nearly everybody"),
    Variable("https_proxy", "{proxy}", "nearly everybody"),
    Variable("HTTP_PROXY", "{proxy}", "nearly everybody, and net/http of Ruby for https"),
    Variable("http_proxy", "{proxy}", "nearly everybody, and net/http of Ruby for https"),
    Variable("WSS_PROXY", "{proxy}", "aiohttp"),
    Variable("wss_proxy", "{proxy}", "aiohttp"),
    Variable("WS_PROXY", "{proxy}", "aiohttp"),
    Variable("ws_proxy", "{proxy}", "aiohttp"),
    Variable("NO_PROXY", LOOPBACK, "nearly everybody"),
    Variable("no_proxy", LOOPBACK, "nearly everybody"),
    Variable("YARN_HTTPS_PROXY", "{proxy}", "Yarn from 2 on, which reads no other"),
    Variable("YARN_HTTP_PROXY", "{proxy}", "Yarn from 2 on, which reads no other"),
    Variable("NODE_USE_ENV_PROXY", "1", "Node from 22.21 and 24.5 on: fetch, http, https"),
    Variable("PERL_LWP_ENV_PROXY", "1", "LWP of Perl, which reads the proxy only then"),
)
"""The way to the door."""

REPLACING: Final = (
    Variable("SSL_CERT_FILE", "{bundle}", "OpenSSL and what is built on it, Go, rustls, uv, httpx"),
    # Unset it would mean the image's own folder of roots, which may be old, or what the image says instead.
    Variable("SSL_CERT_DIR", "{hashed}", "OpenSSL and what is built on it, Go, rustls"),
    Variable("CURL_CA_BUNDLE", "{bundle}", "curl; requests, behind the one below"),
    Variable("REQUESTS_CA_BUNDLE", "{bundle}", "requests and what is built on it"),
    Variable("PIP_CERT", "{bundle}", "pip"),
    Variable("GIT_SSL_CAINFO", "{bundle}", "git"),
    Variable("CARGO_HTTP_CAINFO", "{bundle}", "cargo"),
    Variable("npm_config_cafile", "{bundle}", "npm and pnpm, where the image configures another one"),
    Variable("PERL_LWP_SSL_CA_FILE", "{bundle}", "LWP of Perl"),
    Variable("AWS_CA_BUNDLE", "{bundle}", "the AWS command line, botocore"),
    Variable("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "{bundle}", "gcloud"),
    Variable("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "{bundle}", "gRPC on its C core"),
    Variable("HTTPLIB2_CA_CERTS", "{bundle}", "httplib2, and clients of Google that stand on it"),
    Variable("NIX_SSL_CERT_FILE", "{bundle}", "Nix, whose images set it to a bundle of theirs"),
)
"""Whom to trust, for programs that then trust nobody else."""

ADDING: Final = (
    Variable("NODE_EXTRA_CA_CERTS", "{certificate}", "Node, Bun, Deno from 2.8 on"),
    Variable("DENO_CERT", "{certificate}", "Deno"),
)
"""Whom to trust besides."""

FILES: Final = (
    Variable("WGETRC", "{wgetrc}", "wget"),
    Variable("APT_CONFIG", "{apt}", "apt, where the file cannot lie in its own folder"),
    # What stands in front of the colon is the folder that PHP was built with.
    Variable("PHP_INI_SCAN_DIR", ":{php}", "PHP"),
    Variable("JAVA_TOOL_OPTIONS", _JVM, "every JVM; it says so on standard error when it starts"),
)
"""What names a file of settings, or consists of them."""

VARIABLES: Final = (*PROXY, *REPLACING, *ADDING, *FILES)


def variables(folder: Folder, door: Door) -> dict[str, str]:
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
    return {variable.name: variable.value.format_map(places) for variable in VARIABLES}
