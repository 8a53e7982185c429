"""Who has a port is read from the tables of the kernel; a real one is looked for in tests/proxy."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from pathlib import Path

import pytest

from egress.proxy.ingress.port_owner import BoundSocket, owner_of_port, rows
from egress.proxy.setting_values import ListenAddress

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(address: str, port: int, state: str = "0A", uid: int = 1000, inode: int = 77) -> str:
    packed = ip_address(address).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    local = "".join(f"{word:08X}" for word in words) + f":{port:04X}"
    return f"   0: {local} 00000000:0000 {state} 0:0 00:0 0 {uid:5} 0 {inode} 1 0 100 0 0 10 0\n"


def tables(folder: Path, **found: str) -> Path:
    (folder / "net").mkdir(parents=True)
    for name, text in found.items():
        (folder / "net" / name).write_text(HEAD + text, encoding="ascii")
    return folder


def process(proc: Path, pid: int, name: str, *descriptors: str) -> None:
    (proc / str(pid) / "fd").mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(f"{name}\n", encoding="utf-8")
    for number, leads_to in enumerate(descriptors):
        (proc / str(pid) / "fd" / str(number)).symlink_to(leads_to)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "0.0.0.0", "::1", "2001:db8::7"])
def test_a_row_is_read_as_the_kernel_wrote_it(address: str) -> None:
    assert list(rows([row(address, 3128)])) == [BoundSocket(ip_address(address), 3128, 1000, "77")]


def test_only_sockets_that_wait_are_taken() -> None:
    assert not list(rows([row("127.0.0.1", 3128, state="01"), "", "broken"]))
    assert list(rows([row("127.0.0.1", 53, state="07")]))


def test_a_process_is_named(tmp_path: Path) -> None:
    proc = tables(tmp_path, tcp=row("127.0.0.1", 80, inode=1) + row("127.0.0.1", 3128))
    process(proc, 41, "other", "socket:[1]")
    process(proc, 42, "nginx", "/dev/null", "socket:[77]")
    (proc / "self").mkdir()
    assert owner_of_port(ListenAddress("127.0.0.1", 3128), proc) == "nginx (pid 42)"


def test_a_process_that_names_itself_oddly_writes_nothing_of_its_own(tmp_path: Path) -> None:
    proc = tables(tmp_path, tcp=row("127.0.0.1", 3128))
    process(proc, 42, "a\x1b[2J\nb c\u2603", "socket:[77]")
    assert owner_of_port(ListenAddress("127.0.0.1", 3128), proc) == "a?[2J?b c??? (pid 42)"


def test_of_a_process_that_may_not_be_looked_at_the_user_is_told(tmp_path: Path) -> None:
    proc = tables(tmp_path, tcp=row("0.0.0.0", 3128, uid=33))
    assert owner_of_port(ListenAddress("127.0.0.1", 3128), proc) == "a process of the user with the number 33"


@pytest.mark.parametrize(
    ("bound", "wanted", "is_it"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.2", "127.0.0.1", False),
    ],
)
def test_only_addresses_that_overlap_count(bound: str, wanted: str, *, is_it: bool, tmp_path: Path) -> None:
    proc = tables(tmp_path, **{"tcp6" if ":" in bound else "tcp": row(bound, 3128)})
    assert bool(owner_of_port(ListenAddress(wanted, 3128), proc)) is is_it


def test_without_tables_nobody_can_tell(tmp_path: Path) -> None:
    assert owner_of_port(ListenAddress("127.0.0.1", 3128), tmp_path) == ""
