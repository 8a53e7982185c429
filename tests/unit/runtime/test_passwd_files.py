"""The names of users in a sandbox."""

from __future__ import annotations

from egress.runtime import passwd_files


def test_users_are_the_sandbox_root_and_nobody_and_each_once() -> None:
    assert passwd_files.passwd(1000, 1000).decode().splitlines() == [
        "root:x:0:0:root:/root:/bin/sh",
        "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh",
        "nobody:x:65534:65534:nobody:/nonexistent:/bin/false",
    ]
    assert [line.split(":")[0] for line in passwd_files.passwd(0, 0).decode().splitlines()] == [
        "sandbox",
        "nobody",
    ]
    assert [line.split(":")[0] for line in passwd_files.passwd(65534, 1).decode().splitlines()] == [
        "root",
        "sandbox",
    ]
    assert passwd_files.groups(1000) == b"root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"
    assert passwd_files.groups(0) == b"sandbox:x:0:\nnogroup:x:65534:\n"
