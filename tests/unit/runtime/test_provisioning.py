"""The kit as an outfit."""

from __future__ import annotations

import trustme

from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission


def test_the_kit_of_an_admission_is_its_outfit() -> None:
    own, other = (trustme.CA().cert_pem.bytes() for _ in range(2))
    admission = Admission("one", own.decode(), {"tracker": {"openai": "sk-stand-in"}})
    dress = trust_kit_provisioner(
        other, lambda admission: {"OPENAI_API_KEY": admission.placeholders["tracker"]["openai"]}
    )
    outfit = dress(admission, ProxyAddress("198.18.0.2", 3129))
    assert outfit.variables["OPENAI_API_KEY"] == "sk-stand-in"
    assert outfit.variables["HTTPS_PROXY"] == "http://198.18.0.2:3129"
    assert all(path.startswith(f"{outfit.folder}/") for path in outfit.files)
    assert set(outfit.overmounts.values()) <= outfit.files.keys()
    assert own.strip() in outfit.files[outfit.variables["SSL_CERT_FILE"]].replace(b"\r", b"")
