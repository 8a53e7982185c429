"""The configuration files say what was missing and no more; a laid kit shows that programs take them."""

from __future__ import annotations

import base64
import configparser
import json
from xml.etree import ElementTree as ET

from egress.runtime.kit import config_files
from egress.runtime.kit.paths import KitPaths
from egress.runtime.proxy_address import ProxyAddress

FOLDER = KitPaths("/kit")
DOOR = ProxyAddress("10.9.8.7", 3000)


def test_wget_is_told_whom_to_trust() -> None:
    assert config_files.wgetrc(FOLDER) == "ca_certificate = /kit/bundle.pem\n"


def test_apt_is_told_the_door_and_whom_to_trust() -> None:
    """The door as well: behind `sudo` it sees no variable."""
    assert config_files.apt(FOLDER, DOOR).splitlines() == [
        'Acquire::http::Proxy "http://10.9.8.7:3000";',
        'Acquire::https::Proxy "http://10.9.8.7:3000";',
        'Acquire::https::CAInfo "/kit/bundle.pem";',
    ]


def test_php_is_told_whom_to_trust_for_curl_and_for_streams() -> None:
    parser = configparser.ConfigParser()
    parser.read_string(f"[php]\n{config_files.php(FOLDER)}")
    assert dict(parser["php"]) == {"curl.cainfo": "/kit/bundle.pem", "openssl.cafile": "/kit/bundle.pem"}


def test_maven_is_told_the_door_for_both_protocols() -> None:
    found = ET.fromstring(config_files.maven(DOOR)).iter("proxy")
    proxies = [{part.tag: part.text for part in proxy} for proxy in found]
    assert [(proxy["protocol"], proxy["host"], proxy["port"], proxy["active"]) for proxy in proxies] == [
        ("https", "10.9.8.7", "3000", "true"),
        ("http", "10.9.8.7", "3000", "true"),
    ]
    assert len({proxy["id"] for proxy in proxies}) == 2


def test_maven_still_blocks_repositories_in_clear_text() -> None:
    """The settings that come with Maven say this one thing, and these take their place."""
    (mirror,) = ET.fromstring(config_files.maven(DOOR)).iter("mirror")
    assert (mirror.findtext("mirrorOf"), mirror.findtext("blocked")) == ("external:http:*", "true")


def test_chromium_is_given_the_certificate_and_nothing_else_is_decided_for_it() -> None:
    policy = json.loads(config_files.chromium(b"a certificate"))
    assert policy == {"CACertificates": [base64.b64encode(b"a certificate").decode()]}


def test_firefox_is_told_where_the_certificate_lies_and_nothing_else() -> None:
    assert json.loads(config_files.firefox(FOLDER)) == {
        "policies": {"Certificates": {"Install": ["/kit/ca.pem"]}}
    }
