"""Calls of the kernel, in processes of their own."""

from __future__ import annotations

import os

import pytest

from egress.runtime.namespace.inside import system_calls
from tests.unit.runtime.namespace.inside_code import needs_namespaces, run_inside


def test_what_the_kernel_refuses_is_an_error_with_its_number() -> None:
    with pytest.raises(OSError, match=r"No such file|Operation not permitted") as caught:
        system_calls.open_tree("/no/such/place", recursive=False)
    assert caught.value.errno


def test_a_filter_holds_from_then_on_and_for_all_that_follow() -> None:
    code = """
system_calls.filter_calls(syscall_filter.filter_program(os.uname().machine))
try:
    socket.socket(40, 1)
except OSError as error:
    print(error.errno)
sys.stdout.flush()
os.execv("/bin/sh", ["sh", "-c", "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status"])
"""
    assert run_inside(code).split() == ["97", "NoNewPrivs:", "1", "Seccomp:", "2"]


def test_descriptors_are_closed_for_programs() -> None:
    code = """
os.dup2(1, 7, inheritable=True)
system_calls.close_on_exec(3)
os.execv("/bin/ls", ["ls", "/proc/self/fd"])
"""
    assert run_inside(code).split() == ["0", "1", "2", "3"]


def test_a_process_is_not_looked_into_by_its_own_user() -> None:
    code = """
system_calls.be_readable(by_others=False)
print(os.stat("/proc/self/environ").st_uid)
system_calls.be_readable(by_others=True)
print(os.stat("/proc/self/environ").st_uid)
"""
    assert run_inside(code).split() == ["0", str(os.geteuid())]


def test_capabilities_are_given_up_for_good() -> None:
    needs_namespaces()
    code = """
user_namespaces.enter(0, ())
system_calls.forget_capabilities()
system_calls.drop_capabilities()
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")])
"""
    assert set(run_inside(code).split()) == {"0" * 16}


def test_mounts_are_made_bounded_and_taken_away() -> None:
    needs_namespaces()
    code = """
user_namespaces.enter(0x20000, ())
system_calls.keep_mounts_private()
system_calls.mount("tmpfs", "/proc", "mode=0755")
os.mkdir("/proc/a")
tree = system_calls.open_tree("/usr", recursive=True)
system_calls.restrict(tree, system_calls.READ_ONLY)
system_calls.attach(tree, "/proc/a")
print(os.path.exists("/proc/a/bin"), bool(os.statvfs("/proc/a").f_flag & os.ST_RDONLY))
system_calls.detach("/proc/a")
system_calls.restrict_path("/proc", system_calls.READ_ONLY)
try:
    os.mkdir("/proc/b")
except OSError as error:
    print(error.errno)
"""
    assert run_inside(code).split() == ["True", "True", "30"]


def test_a_child_that_is_traced_and_stops_has_not_ended() -> None:
    """It made its parent its tracer: the kernel tells of each of its stops."""
    code = """
import ctypes, signal
traced = os.fork()
if not traced:
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGTRAP)
    os._exit(0)
os.waitid(os.P_PID, traced, os.WSTOPPED | os.WNOWAIT)
print(list(system_calls.reaped()))
os.kill(traced, signal.SIGKILL)
os.waitid(os.P_PID, traced, os.WEXITED | os.WNOWAIT)
print([os.waitstatus_to_exitcode(status) for _, status in system_calls.reaped()])
"""
    assert run_inside(code).splitlines() == ["[]", "[-9]"]


def test_children_that_have_ended_are_told_and_others_are_not_waited_for() -> None:
    code = """
print(list(system_calls.reaped()))
ended = [os.fork() or os._exit(status) for status in (0, 3)]
for number in ended:
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
hears, tells = os.pipe()
living = os.fork()
if not living:
    os.close(tells)
    os.read(hears, 1)
    os._exit(0)
found = dict(system_calls.reaped())
print([os.waitstatus_to_exitcode(found[number]) for number in ended], len(found))
os.close(tells)
os.waitpid(living, 0)
print(list(system_calls.reaped()))
"""
    assert run_inside(code).splitlines() == ["[]", "[0, 3] 2", "[]"]
