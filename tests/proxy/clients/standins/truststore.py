"""How a JVM is told whom to trust: a store of its own, filled once, and two properties."""

from __future__ import annotations

IMPORT = (
    *("keytool", "-importcert", "-noprompt", "-alias", "egress", "-file", "{certificate}"),
    *("-keystore", "{home}/egress.p12", "-storetype", "PKCS12", "-storepass", "changeit"),
)
TRUST = "-Djavax.net.ssl.trustStore={home}/egress.p12 -Djavax.net.ssl.trustStorePassword=changeit"
