"""What of the machine is seen."""

from __future__ import annotations

from egress.runtime.namespace import host_image


def test_users_are_the_sandbox_root_and_nobody_and_each_once() -> None:
    assert host_image.passwd(1000, 1000).decode().splitlines() == [
        "root:x:0:0:root:/root:/bin/sh",
        "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh",
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false",
    ]
    assert [line.split(":")[0] for line in host_image.passwd(0, 0).decode().splitlines()] == [
        "sandbox",
        "nobody",
    ]
    assert [line.split(":")[0] for line in host_image.passwd(65534, 1).decode().splitlines()] == [
        "root",
        "sandbox",
    ]
    assert host_image.groups(1000) == b"root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"
    assert host_image.groups(0) == b"sandbox:x:0:\nnogroup:x:65534:\n"


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
