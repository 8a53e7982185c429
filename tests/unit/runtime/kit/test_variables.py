"""The variables of the kit; that they are enough is shown by the clients that are run with them."""

from __future__ import annotations

import re

import pytest

from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.variables import ADDING_VARIABLES, KIT_VARIABLES, REPLACING_VARIABLES, variables
from egress.runtime.proxy_address import ProxyAddress

FOLDER = KitPaths("/kit")
FOUND = variables(FOLDER, ProxyAddress("10.9.8.7", 3000))
URL = "http://10.9.8.7:3000"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "HTTP_PROXY", "WSS_PROXY", "WS_PROXY"])
def test_a_proxy_is_named_in_both_spellings(name: str) -> None:
    """Plain HTTP too: net/http of Ruby looks there for https, and a denied request is told why."""
    assert FOUND[name] == FOUND[name.lower()] == URL


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_only_the_sandbox_itself_is_reached_without_the_door(name: str) -> None:
    assert FOUND[name].split(",") == ["localhost", "127.0.0.1", "::1"]


@pytest.mark.parametrize(
    "name",
    [
        *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
        *("CARGO_HTTP_CAINFO", "npm_config_cafile", "PERL_LWP_SSL_CA_FILE", "AWS_CA_BUNDLE"),
        *("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NIX_SSL_CERT_FILE"),
        "HTTPLIB2_CA_CERTS",
    ],
)
def test_what_replaces_roots_is_given_the_bundle(name: str) -> None:
    assert FOUND[name] == "/kit/bundle.pem"


@pytest.mark.parametrize("name", ["NODE_EXTRA_CA_CERTS", "DENO_CERT"])
def test_what_adds_to_roots_is_given_the_certificate_alone(name: str) -> None:
    """Node reads the file anew each time it starts: a bundle would be read for nothing."""
    assert FOUND[name] == "/kit/ca.pem"


def test_the_folder_of_roots_is_ours_too() -> None:
    """Left unset, OpenSSL would still trust the folder of the image."""
    assert FOUND["SSL_CERT_DIR"] == "/kit/certs"


def test_a_jvm_is_told_the_door_and_the_store() -> None:
    words = FOUND["JAVA_TOOL_OPTIONS"].split()
    assert all(re.fullmatch(r"-D[A-Za-z.0-9]+=[^ =]+", word) for word in words)
    options = dict(word.removeprefix("-D").split("=") for word in words)
    for scheme in ("http", "https"):
        assert (options[f"{scheme}.proxyHost"], options[f"{scheme}.proxyPort"]) == ("10.9.8.7", "3000")
    assert options["javax.net.ssl.trustStore"] == "/kit/truststore.p12"


def test_a_jvm_is_told_an_ipv6_address_without_brackets() -> None:
    found = variables(FOLDER, ProxyAddress("fd00::5"))
    assert "-Dhttps.proxyHost=fd00::5 " in found["JAVA_TOOL_OPTIONS"]
    assert found["HTTPS_PROXY"] == "http://[fd00::5]:3128"


def test_php_reads_its_own_folder_first() -> None:
    assert FOUND["PHP_INI_SCAN_DIR"] == ":/kit/php"


@pytest.mark.parametrize(
    "name",
    [
        *("NODE_OPTIONS", "YARN_HTTPS_CA_FILE_PATH", "YARN_NO_PROXY", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS"),
        *("NODE_TLS_REJECT_UNAUTHORIZED", "GIT_SSL_NO_VERIFY", "GIT_CONFIG_COUNT", "PYTHONHTTPSVERIFY"),
    ],
)
def test_what_stops_programs_or_turns_verification_off_is_not_set(name: str) -> None:
    assert name not in FOUND


def test_every_variable_has_one_place_and_says_who_reads_it() -> None:
    names = [variable.name for variable in KIT_VARIABLES]
    assert len(set(names)) == len(names) == len(FOUND)
    assert all(variable.read_by for variable in KIT_VARIABLES)
    assert not [name for name, value in FOUND.items() if "{" in value or "}" in value]


def test_what_replaces_and_what_adds_names_files_of_the_kit() -> None:
    assert all(
        FOUND[variable.name].startswith("/kit/") for variable in (*REPLACING_VARIABLES, *ADDING_VARIABLES)
    )
