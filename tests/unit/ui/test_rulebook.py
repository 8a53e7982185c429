"""The rules at hand beside what they did."""

from __future__ import annotations

from pathlib import Path

from egress.proxy.lanes import engine
from egress.review import TrafficTotals
from egress.ui.rulebook import CANARIES, around, read, rows
from tests.unit.ui.page_app import RULES, rules

HITS = {
    "api.github.com#read": TrafficTotals(requests=7),
    "gone.example.com#old": TrafficTotals(requests=2),
    "": TrafficTotals(3),
}


def test_rules_that_nothing_hit_and_that_add_nothing_are_marked(tmp_path: Path) -> None:
    found = {row.name: row for row in rows(read([rules(tmp_path)], 0), HITS)}
    assert found["api.github.com#read"].marks == ()
    assert found["api.github.com#read"].numbers.requests == 7
    assert found["api.github.com#narrow"].marks == ("unused", "shadowed")
    assert found["gone.example.com#old"].marks == ("not in the files",)
    assert "" not in found


UNREAD = """\
version: 1
canaries:
  key: { like: aws, env: AWS_ACCESS_KEY_ID }
  quiet: { like: uuid, file: ~/.token, stop: true }
hosts:
  pinned.example.com: { intercept: never }
  "*.pinned.example.com": { intercept: never }
  read.example.com: {}
"""


def test_a_canary_is_a_deny_and_one_that_nothing_sent_is_as_it_should_be(tmp_path: Path) -> None:
    file = rules(tmp_path)
    file.write_text(UNREAD)
    hits = {f"{engine.CANARIES_KEY_NAME}#key": TrafficTotals(requests=2, denied=2)}
    found = {row.name: row for row in rows(read([file], 0), hits)}
    seen, quiet = found[f"{CANARIES}#key"], found[f"{CANARIES}#quiet"]
    assert (seen.verdict, seen.numbers.requests, seen.marks) == ("deny", 2, ())
    assert seen.text == "{like: aws, env: AWS_ACCESS_KEY_ID}"
    assert seen.place == f"{file}:3"
    assert (quiet.numbers.requests, quiet.marks) == (0, ())


def test_what_passes_unread_is_counted_by_its_hosts(tmp_path: Path) -> None:
    file = rules(tmp_path)
    file.write_text(UNREAD)
    at_hand = read([file], 0)
    tunnels = {
        "pinned.example.com": TrafficTotals(3),
        "read.example.com": TrafficTotals(9),
        "elsewhere.example.org": TrafficTotals(9),
    }
    found = {row.name: row for row in rows(at_hand, {}, tunnels)}
    used = found["pinned.example.com#host"]
    assert (used.numbers.requests, used.marks, used.unread) == (3, (), "pinned.example.com")
    assert "hits are tunnels" in used.notes[-1]
    assert found["*.pinned.example.com#host"].marks == ("unused",)
    # What is read is recorded with its rule: a tunnel says nothing about it.
    assert found["read.example.com#host"].marks == ("unused",)


def test_a_deny_that_adds_nothing_is_shadowed_too(tmp_path: Path) -> None:
    file = rules(tmp_path)
    file.write_text(
        "version: 1\nhosts:\n  a.example.com:\n    methods: [GET]\n    deny:\n"
        '      - { id: wide, paths: ["/a/**"] }\n      - { id: narrow, paths: ["/a/b/**"] }\n'
    )
    found = {row.name: row.marks for row in rows(read([file], 0), {})}
    assert "shadowed" in found["a.example.com#narrow"]
    assert "shadowed" not in found["a.example.com#wide"]


def test_what_is_wrong_with_a_file_is_told(tmp_path: Path) -> None:
    file = rules(tmp_path)
    file.write_text("hosts: [\n")
    assert read([file], 0).problem == "the rule files have errors"
    file.write_bytes(b"\xff\xff")
    assert read([file], 0).problem == "a rule file is not valid text"
    assert "none" in read([tmp_path / "none.yaml"], 0).problem
    assert rows(read([file], 0), {}) == []


def test_shows_the_lines_around_the_one_that_decided(tmp_path: Path) -> None:
    file = rules(tmp_path)
    found = around(read([file], 0), f"{file}:9")
    assert [number for number, _, _ in found] == list(range(6, 13))
    assert [text for _, text, is_it in found if is_it] == [RULES.splitlines()[8]]


def test_the_proxy_may_have_named_the_file_from_another_folder(tmp_path: Path) -> None:
    at_hand = read([rules(tmp_path)], 0)
    assert all(around(at_hand, f"{name}:9") for name in ("hosts.yaml", f"{tmp_path.name}/hosts.yaml"))
    others = ("osts.yaml", "other/hosts.yaml", f"/else{tmp_path}/hosts.yaml", "", "/")
    assert not any(around(at_hand, f"{name}:9") for name in others)


def test_a_name_that_two_files_have_shows_neither(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.append(tmp_path / name / "hosts.yaml")
        files[-1].write_text(f"version: 1\nhosts: {{ {name}.example.com: {{}} }}\n")
    at_hand = read(files, 0)
    assert around(at_hand, "hosts.yaml:2") == []
    assert around(at_hand, "two/hosts.yaml:2")[-1][1] == "hosts: { two.example.com: {} }"


def test_a_log_cannot_make_it_show_another_file(tmp_path: Path) -> None:
    file, other = rules(tmp_path), tmp_path / "other"
    other.write_text("private\n")
    at_hand = read([file], 0)
    places = (
        f"{other}:1",
        f"{file}:0",
        f"{file}:99",
        f"{file}:-1",
        f"{file}:x",
        "",
        ":",
        f"{file}:{'9' * 5000}",
    )
    for place in places:
        assert around(at_hand, place) == []
