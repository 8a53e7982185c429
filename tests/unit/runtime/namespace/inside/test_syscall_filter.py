"""The filter, run as the kernel would run it: each call by its number and arguments, on each machine."""

from __future__ import annotations

import errno
import os
import socket
import struct

import pytest

from egress.runtime.namespace.inside.syscall_filter import MACHINE_FILTERS, filter_program

ALLOWED = 0x7FFF0000
ENDED = 0x80000000


def refused(number: int) -> int:
    return 0x00050000 | number


def verdict(filter_: bytes, machine: int, call: int, *arguments: int) -> int:
    """What the program returns; fails where it runs off its end, or jumps out of it."""
    data = struct.pack("=IIQ6Q", call, machine, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    at, loaded = 0, 0
    while True:
        code, when, otherwise, value = struct.unpack_from("=HBBI", filter_, at * 8)
        at += 1
        if code == 0x20:
            loaded = struct.unpack_from("=I", data, value)[0]
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += when if holds else otherwise


@pytest.fixture(params=sorted(MACHINE_FILTERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asked(name: str, call: str, *arguments: int) -> int:
    machine = MACHINE_FILTERS[name]
    return verdict(filter_program(name), machine.name, machine.calls[call], *arguments)


def test_what_nobody_named_is_allowed(name: str) -> None:
    machine = MACHINE_FILTERS[name]
    for call in range(1000):
        if call not in machine.calls.values():
            assert verdict(filter_program(name), machine.name, call) == ALLOWED, call


def test_what_is_named_is_refused(name: str) -> None:
    looked_at = {"clone", "ioctl", "socket"}
    for call in MACHINE_FILTERS[name].calls.keys() - looked_at:
        wanted = errno.EPERM
        if call == "clone3" or call.startswith("io_uring"):
            wanted = errno.ENOSYS
        elif "setxattr" in call:
            wanted = errno.EOPNOTSUPP
        assert asked(name, call, 1, 2, 3) == refused(wanted), call


def test_no_number_stands_for_two_calls(name: str) -> None:
    numbers = list(MACHINE_FILTERS[name].calls.values())
    assert len(set(numbers)) == len(numbers)


def test_a_program_for_another_machine_is_ended(name: str) -> None:
    assert verdict(filter_program(name), 0x40000003, 1) == ENDED
    others = {each.name for each in MACHINE_FILTERS.values()} - {MACHINE_FILTERS[name].name}
    assert {verdict(filter_program(name), other, 39) for other in others} == {ENDED}


def test_the_other_numbers_of_one_machine_do_not_exist() -> None:
    machine = MACHINE_FILTERS["x86_64"]
    for call in (0x40000000, 0x40000000 | machine.calls["unshare"], 0xFFFFFFFF):
        assert verdict(filter_program("x86_64"), machine.name, call) == refused(errno.ENOSYS)


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_no_process_is_begun_in_another_namespace(name: str, flag: int) -> None:
    assert asked(name, "clone", flag | 17) == refused(errno.EPERM)
    # Threads and forks.
    assert asked(name, "clone", 0x3D0F00) == ALLOWED
    assert asked(name, "clone", 17) == ALLOWED


def test_only_some_sockets_are_opened(name: str) -> None:
    allowed = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6}
    for family in range(64):
        wanted = ALLOWED if family in {*allowed, socket.AF_NETLINK} else refused(errno.EAFNOSUPPORT)
        assert asked(name, "socket", family, socket.SOCK_STREAM, 0) == wanted, family
    for protocol in range(512):
        is_usual = protocol in (0, 1, 6, 17, 58, 262)
        for family in (socket.AF_INET, socket.AF_INET6):
            wanted = ALLOWED if is_usual else refused(errno.EPROTONOSUPPORT)
            assert asked(name, "socket", family, 1, protocol) == wanted, protocol
        if protocol:
            assert asked(name, "socket", socket.AF_NETLINK, 3, protocol) == refused(errno.EPERM)


def test_the_upper_half_of_an_argument_does_not_help(name: str) -> None:
    """The kernel looks at 32 bits of a family and a request, and so does the filter."""
    upper = 1 << 32
    assert asked(name, "socket", upper | socket.AF_VSOCK, 1, 0) == refused(errno.EAFNOSUPPORT)
    assert asked(name, "ioctl", 0, upper | 0x5412) == refused(errno.EPERM)


def test_nobody_types_into_a_terminal_for_another(name: str) -> None:
    for request in (0x5412, 0x541C):
        assert asked(name, "ioctl", 0, request) == refused(errno.EPERM)
    assert asked(name, "ioctl", 0, 0x5413) == ALLOWED


def test_this_machine_is_known_or_told_as_not() -> None:
    if os.uname().machine not in MACHINE_FILTERS:
        with pytest.raises(KeyError):
            filter_program(os.uname().machine)
    with pytest.raises(KeyError):
        filter_program("pdp11")


def test_it_fits(name: str) -> None:
    assert 0 < len(filter_program(name)) // 8 < 4096
