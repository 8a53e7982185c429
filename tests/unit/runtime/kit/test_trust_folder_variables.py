"""The variables of a pod: each names a file that its folder has."""

from __future__ import annotations

from egress.runtime.kit.trust_folder_variables import trust_folder_variables


def test_variables_name_the_proxy_the_bundle_and_the_authority() -> None:
    found = trust_folder_variables("http://10.96.0.92:3128", "/etc/egress-trust")
    assert found["https_proxy"] == "http://10.96.0.92:3128"
    assert found["SSL_CERT_FILE"] == "/etc/egress-trust/bundle.pem"
    assert found["NODE_EXTRA_CA_CERTS"] == "/etc/egress-trust/ca.pem"


def test_a_file_that_the_folder_lacks_is_named_by_no_variable() -> None:
    found = trust_folder_variables("http://10.96.0.92:3128", "/etc/egress-trust")
    assert not {"SSL_CERT_DIR", "JAVA_TOOL_OPTIONS", "WGETRC"} & found.keys()
    assert {value for value in found.values() if value.startswith("/")} == {
        "/etc/egress-trust/bundle.pem",
        "/etc/egress-trust/ca.pem",
    }
