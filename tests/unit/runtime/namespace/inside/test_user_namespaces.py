"""The two user namespaces."""

from __future__ import annotations

from tests.unit.runtime.namespace.inside_code import needs_namespaces, run_inside


def test_whoever_calls_is_root_of_the_outer_one_and_nobody_else_is_there() -> None:
    needs_namespaces()
    code = "user_namespaces.enter(0, ())\nprint(os.getuid(), open('/proc/self/uid_map').read().split()[0::2])"
    assert run_inside(code) == "0 ['0', '1']\n"


def test_the_inner_one_has_one_user_no_right_outside_and_no_further_one() -> None:
    needs_namespaces()
    code = """
user_namespaces.enter(0x40020000, ())
found = user_namespaces.inner(user_namespaces.InnerUser(1000, 1001, 0))
os.setns(found, 0x10000000)
os.setresgid(1001, 1001, 1001)
os.setresuid(1000, 1000, 1000)
system_calls.drop_capabilities()
print(os.getresuid(), os.getresgid())
for attempt in (lambda: os.unshare(0x10000000), lambda: os.unshare(0x40000000)):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(error.errno)
"""
    first, *others = run_inside(code).splitlines()
    assert first == "(1000, 1000, 1000) (1001, 1001, 1001)"
    # ENOSPC: there may be none. EPERM: they are not its to make.
    assert others == ["28", "1"]


def test_a_group_that_cannot_be_joined_is_no_freezer() -> None:
    code = """
print(user_namespaces.checked_freezer(-1))
print(user_namespaces.checked_freezer(os.open("/dev/full", os.O_WRONLY)))
file = os.open("/dev/null", os.O_WRONLY)
print(user_namespaces.checked_freezer(file) == file)
"""
    assert run_inside(code).split() == ["-1", "-1", "True"]
