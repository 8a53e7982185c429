"""What of the machine is seen."""

from __future__ import annotations

from egress.runtime.namespace import host_image


def test_nothing_that_holds_secrets_is_named() -> None:
    for name in (
        "shadow",
        "gshadow",
        "ssh",
        "ssl/private",
        "ssl",
        "gitconfig",
        "npmrc",
        "pip.conf",
        "sudoers",
    ):
        assert name not in host_image.SHOWN_SETTINGS
    assert not any(name.startswith("/") or ".." in name for name in host_image.SHOWN_SETTINGS)


def test_names_are_asked_of_the_door_alone() -> None:
    assert host_image.resolver("198.18.0.2").startswith(b"nameserver 198.18.0.2\n")
    assert host_image.hosts("one") == b"127.0.0.1 localhost\n127.0.1.1 one\n"
    assert b"hosts: files dns\n" in host_image.NSSWITCH_FILE
