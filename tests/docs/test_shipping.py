"""The recipes that ship the audit log: their shape, and that a copy of lines as they are can be verified.

No shipper runs here. What is held is what can be known without one: they parse, they read the files that the
log has and no others, they pass a line on as it is, and every field they name is one that lines have.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

import pytest
from ruamel.yaml import YAML

from egress.audit import checkpoint, files
from egress.audit.fields import MAX_PATH, MAX_REASON, MAX_RULE, MAX_SECRETS
from egress.audit.sink import Sink
from tests.unit.audit.sample import FACTS, NAME, OPENING, RECORD, check, opened, sound

ROOT = Path(__file__).parents[2]
SHIPPING = ROOT / "container/shipping"
REFERENCE = (ROOT / "docs/reference/audit.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs/guides/shipping.md").read_text(encoding="utf-8")
RECIPES = ("vector.yaml", "fluent-bit.conf", "otel-collector.yaml")
FOLDER = "/var/log/egress"
LONGEST = 256 * 1024
"""Bytes that no line reaches: its texts are cut, and an escape has six bytes."""

type Tree = dict[str, object]


def text(recipe: str) -> str:
    return (SHIPPING / recipe).read_text(encoding="utf-8")


def tree(recipe: str) -> Tree:
    found = YAML(typ="safe", pure=True).load(text(recipe))
    assert isinstance(found, dict)
    return found


def at(value: object, *path: str) -> object:
    for step in path:
        assert isinstance(value, dict), step
        value = value[step]
    return value


def words(value: object) -> list[str]:
    assert isinstance(value, list)
    return cast("list[str]", value)


def sections(recipe: str = "fluent-bit.conf") -> dict[str, dict[str, str]]:
    """Of the classic form: sections, and in each keys with their values."""
    found: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in text(recipe).splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line.strip() and not line.lstrip().startswith("#"):
            key, value = line.split(maxsplit=1)
            assert key not in section, "each key once"
            section[key] = value
    return found


def included(recipe: str) -> str:
    if recipe == "vector.yaml":
        (found,) = words(at(tree(recipe), "sources", "egress_audit", "include"))
    elif recipe == "otel-collector.yaml":
        (found,) = words(at(tree(recipe), "receivers", "filelog/egress", "include"))
    else:
        found = sections()["INPUT"]["Path"]
    return found


def fields(recipe: str) -> set[str]:
    """Every field of a line that a recipe reads."""
    return set(re.findall(r"(?:parsed|attributes\.audit)\.([a-z_]+)", text(recipe)))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[Sink, Path]]:
    """A log with several files, and a proxy that goes on writing."""
    folder = tmp_path / "audit"
    sink = opened(folder, rotate_at=4000)
    written(sink)
    yield sink, folder
    sink.close()


def written(sink: Sink) -> None:
    for _ in range(20):
        sink.exchange(sink.begin(OPENING), RECORD, FACTS)
        sink.refusal(NAME)
        sink.flush()


def shipped(log: Path, copy: Path, pattern: str) -> Path:
    """What a shipper does that passes lines on as they are: by line, and by the name of the file."""
    copy.mkdir(exist_ok=True)
    for path in sorted(log.iterdir()):
        if fnmatchcase(path.name, pattern):
            lines = path.read_bytes().split(b"\n")[:-1]
            (copy / path.name).write_bytes(b"".join(line + b"\n" for line in lines))
    return copy


# What they read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_reads_every_file_of_lines_and_no_other(recipe: str, log: tuple[Sink, Path]) -> None:
    """Not the key, which would let the reader write lines; not the head, the anchor, or what is under way."""
    _, folder = log
    place = Path(included(recipe))
    assert str(place.parent) == FOLDER
    there = {path.name for path in folder.iterdir()} | {files.ANCHOR, "index.sqlite3", "audit.key"}
    numbered = {files.name(number) for number in (*files.numbers(folder), 999_999, 1_000_000)}
    assert len(files.numbers(folder)) > 2
    assert {name for name in there | numbered if fnmatchcase(name, place.name)} == numbered


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_names_no_secret_and_no_key(recipe: str) -> None:
    found = re.findall(
        r"(?i)password|token|api[_-]?key|authorization|audit\.key|https?://[^\s/]*@", text(recipe)
    )
    assert found == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_names_only_fields_that_lines_have(recipe: str) -> None:
    assert [name for name in sorted(fields(recipe)) if f"`{name}`" not in REFERENCE] == []


def test_the_fields_of_the_recipes_are_found() -> None:
    """Otherwise the test above could pass by finding none."""
    assert {"seq", "mac", "sandbox", "verdict"} <= fields("vector.yaml")
    assert "time" in fields("otel-collector.yaml")
    assert fields("fluent-bit.conf") == set()


# What each passes on ------------------------------------------------------------------------------


def test_vector_copies_the_line_as_it_is() -> None:
    recipe = tree("vector.yaml")
    source = at(recipe, "sources", "egress_audit")
    assert at(source, "type") == "file"
    assert at(source, "read_from") == "beginning"
    assert at(source, "oldest_first") is True
    assert at(source, "fingerprint", "strategy") == "checksum"
    longest = at(source, "max_line_bytes")
    assert isinstance(longest, int)
    assert longest >= LONGEST
    copy = at(recipe, "sinks", "egress_copy")
    assert at(copy, "encoding", "codec") == "text"
    assert at(copy, "framing", "method") == "newline_delimited"
    assert at(copy, "path") == "/var/lib/egress-copy/{{ name }}"
    assert at(copy, "inputs") == ["egress_named"]
    named = at(recipe, "transforms", "egress_named")
    assert at(named, "inputs") == ["egress_audit"]


def test_no_program_of_vector_changes_the_line() -> None:
    transforms = at(tree("vector.yaml"), "transforms")
    assert isinstance(transforms, dict)
    programs = [str(at(transform, "source")) for transform in transforms.values()]
    assert programs
    for program in programs:
        assert set(re.findall(r"^\s*(\.\w+) =", program, re.MULTILINE)) <= {".name", ".audit"}
        assert "del(" not in program


def test_vector_joins_what_is_there() -> None:
    recipe = tree("vector.yaml")
    made = {name for part in ("sources", "transforms") for name in cast("Tree", recipe[part])}
    for part in ("transforms", "sinks"):
        for node in cast("Tree", recipe[part]).values():
            assert set(words(at(node, "inputs"))) <= made


def test_fluent_bit_copies_the_line_as_it_is() -> None:
    found = sections()
    read, write = found["INPUT"], found["OUTPUT"]
    assert read["Name"] == "tail"
    assert read["Read_from_Head"] == "On"
    assert read["Skip_Long_Lines"] == "Off"
    assert read["Buffer_Max_Size"] == "1M"
    assert "DB" in read
    assert "Parser" not in read
    assert not found.keys() - {"SERVICE", "INPUT", "OUTPUT"}, "no filter touches a line"
    assert write["Format"] == "template"
    assert write["Template"] == f"{{{read['Key']}}}"
    assert write["Workers"] == "1"
    assert write["Retry_Limit"] == "no_limits"


@pytest.mark.parametrize("number", [1, 999_999, 1_000_000])
def test_fluent_bit_names_the_copy_like_the_file(number: int) -> None:
    found = sections()
    assert found["INPUT"]["Tag"] == "<name>"
    pattern = found["INPUT"]["Tag_Regex"].replace("(?<", "(?P<")
    match = re.search(pattern, f"{FOLDER}/{files.name(number)}")
    assert match is not None
    assert match["name"] == files.name(number)
    assert fnmatchcase(match["name"], found["OUTPUT"]["Match"])
    assert "File" not in found["OUTPUT"], "without it the tag is the name"


def test_the_collector_keeps_the_line_as_the_body() -> None:
    recipe = tree("otel-collector.yaml")
    receiver = at(recipe, "receivers", "filelog/egress")
    assert at(receiver, "start_at") == "beginning"
    assert at(receiver, "include_file_name") is True
    assert at(receiver, "preserve_leading_whitespaces") is True
    assert at(receiver, "preserve_trailing_whitespaces") is True
    assert at(receiver, "force_flush_period") == "0s"
    assert at(receiver, "max_log_size") == "1MiB"
    operators = at(receiver, "operators")
    assert isinstance(operators, list)
    (operator,) = operators
    assert at(operator, "parse_to") == "attributes.audit"
    assert at(operator, "on_error") == "send_quiet"


def test_the_collector_runs_what_it_defines_and_nothing_else() -> None:
    recipe = tree("otel-collector.yaml")
    pipeline = at(recipe, "service", "pipelines", "logs/egress")
    for part in ("receivers", "exporters"):
        assert set(words(at(pipeline, part))) == set(cast("Tree", recipe[part]))
    extensions = set(cast("Tree", recipe["extensions"]))
    assert set(words(at(recipe, "service", "extensions"))) == extensions
    assert at(recipe, "receivers", "filelog/egress", "storage") in extensions


# What comes of it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_copy_of_the_lines_is_verified_with_the_head(
    recipe: str, log: tuple[Sink, Path], tmp_path: Path
) -> None:
    sink, folder = log
    pattern = Path(included(recipe)).name
    copy = shipped(folder, tmp_path / "copy", pattern)
    shutil.copy(folder / checkpoint.FILE_NAME, copy)
    assert sound(copy).lines == sound(folder).lines
    # The head may be older than the lines: they only go on.
    written(sink)
    assert sound(shipped(folder, copy, pattern)).lines == sound(folder).lines


def test_a_copy_that_was_parsed_and_printed_again_is_not_sound(
    log: tuple[Sink, Path], tmp_path: Path
) -> None:
    """The control: this is what the recipes are careful about."""
    _, folder = log
    copy = shipped(folder, tmp_path / "copy", "audit-*.jsonl")
    shutil.copy(folder / checkpoint.FILE_NAME, copy)
    path = copy / files.name(1)
    lines = [json.dumps(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert not check(copy).is_sound


def test_the_files_are_put_together_again_from_what_the_collector_wrote(
    log: tuple[Sink, Path], tmp_path: Path
) -> None:
    """By the program of the guide, from the shape that its file exporter writes."""
    _, folder = log
    out = tmp_path / "egress-copy.json"
    batches = []
    for number in files.numbers(folder):
        name = files.name(number)
        records = [
            {
                "body": {"stringValue": line},
                "attributes": [{"key": "log.file.name", "value": {"stringValue": name}}],
            }
            for line in (folder / name).read_text(encoding="utf-8").splitlines()
        ]
        batches.append({"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": records}]}]})
    out.write_text("".join(json.dumps(batch) + "\n" for batch in batches), encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert program is not None
    copy = tmp_path / "copy"
    copy.mkdir()
    code = program[1].replace("/var/lib/otelcol/egress-copy.json", str(out))
    exec(compile(code.replace("/var/lib/egress-copy", str(copy)), "guide", "exec"), {})
    shutil.copy(folder / checkpoint.FILE_NAME, copy)
    assert sound(copy).lines == sound(folder).lines


def test_no_line_reaches_the_bound_of_the_recipes() -> None:
    """Each text is cut; these are the longest, and each byte of them can be an escape."""
    texts = MAX_PATH + 4 * MAX_RULE + MAX_REASON + 40 * 256 + MAX_SECRETS * 2 * 256
    assert 6 * texts < LONGEST


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_guide_tells_of_every_recipe(recipe: str) -> None:
    assert f"](../../container/shipping/{recipe})" in GUIDE
