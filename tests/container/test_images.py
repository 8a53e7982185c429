"""The images are built here by the recipes as they are shipped, without a registry, and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.cli.sandboxes.build_log import logged_build
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import bases, builder, product_images, recipes
from egress.runtime.errors import EngineError
from tests.cli.sandboxes.trial_fixtures import folder
from tests.container.confined_run import run

__all__ = ["folder"]

pytestmark = pytest.mark.system("docker", "docker.io")

PYTHON = ["/opt/egress/bin/python", "-c"]
TOOLS = (
    *("bash", "env", "git", "curl", "rg", "python3", "pip", "node", "npm", "npx", "find", "less", "ps"),
    *("gh", "gcc", "g++", "make", "jq", "patch", "pkg-config", "unzip", "xz"),
)
AGENTS = ("claude", "codex", "copilot", "gemini", "opencode")


@pytest.mark.system("debootstrap")
@pytest.mark.timeout(900)
def test_the_sandbox_has_its_tools_and_no_rights(engine: DockerEngine, sandbox: str) -> None:
    script = "id -u; pwd; touch here && stat -c %u here; for tool; do command -v $tool || echo NO; done"
    done = run(sandbox, "sh", "-c", script, "sh", *TOOLS)
    number, place, owner, *found = done.stdout.split()
    assert (number, place, owner) == ("1000", "/workspace", "1000")
    assert "NO" not in found
    assert len(found) == len(TOOLS)


@pytest.mark.system("debootstrap")
@pytest.mark.timeout(900)
def test_the_tools_of_the_sandbox_run(engine: DockerEngine, sandbox: str) -> None:
    script = (
        "set -e; git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x;"
        "echo needle >x; rg -q needle; node -e 'process.exit(0)'; python3 -c 'import ssl';"
        "curl -V >/dev/null; gh --version >/dev/null; npx --version >/dev/null"
    )
    done = run(sandbox, "bash", "-c", script)
    assert done.returncode == 0, done.stderr


@pytest.mark.system("debootstrap")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("user", ["1000:1000", "1234:1234"])
def test_any_user_of_the_sandbox_installs_and_compiles_at_once(
    engine: DockerEngine, sandbox: str, user: str, tmp_path: Path
) -> None:
    """What agents do first: a venv, a package for Python and one for Node, a program in C."""
    package(tmp_path)
    script = (
        "set -e; cp -r /given /tmp/work; cd /tmp/work;"
        "python3 -m venv env; env/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix';"
        "pip install -q --no-index --find-links . --no-build-isolation thing; thing-py;"
        "npm install --silent --global --offline ./thing; thing-js;"
        "echo 'int main(void) { return 0; }' >x.c; gcc x.c -o x; ./x"
    )
    options = ["--user", user, "--tmpfs", "/tmp:exec", "--tmpfs", "/home/sandbox:exec,mode=1777"]
    done = run(sandbox, "bash", "-c", script, options=[*options, "-v", f"{tmp_path}:/given:ro"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["python", "node"]


@pytest.mark.system("debootstrap")
@pytest.mark.timeout(900)
def test_the_node_of_the_sandbox_has_long_term_support(engine: DockerEngine, sandbox: str) -> None:
    done = run(sandbox, "node", "-p", "process.release.lts && process.versions.node")
    assert int(done.stdout.partition(".")[0]) >= 24


@pytest.mark.system("debootstrap")
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_agents_start_without_a_network(engine: DockerEngine, agents: str) -> None:
    """By any user, in the versions of the lock file; tests/tools drives them to the end of a task."""
    pins = json.loads((recipes.folder() / "agents/package.json").read_text("utf-8"))["dependencies"]
    for program in AGENTS:
        done = run(agents, program, "--version", options=["--user", "1234", "--tmpfs", "/home/sandbox:exec"])
        assert done.returncode == 0, (program, done.stderr)
        assert any(version in done.stdout for version in pins.values()), (program, done.stdout)


@pytest.mark.system("debootstrap")
@pytest.mark.timeout(900)
def test_each_stack_of_the_sandbox_trusts_and_is_given_the_credential(
    engine: DockerEngine, sandbox: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A system of Debian's packages as it is, where the kit is all that was added."""
    status = main(["doctor", "--image", sandbox, "--runtime", "docker", "--json"])
    said = json.loads(capsys.readouterr().out)
    found = {each["stack"]: (each["trusts"], each["injected"]) for each in said["stacks"]}
    assert (status, set(found.values())) == (0, {(True, True)}), said
    assert set(found) >= {"curl", "git", "python urllib", "node", "apt"}


def test_the_demonstration_has_what_it_shows(engine: DockerEngine, demo: str) -> None:
    script = "id -u; pwd; python3 -c 'import ssl, json; print(1)'; curl -V >/dev/null && git --version"
    done = run(demo, "sh", "-c", script)
    assert done.stdout.split()[:3] == ["1000", "/workspace", "1"], done.stderr
    assert "git version" in done.stdout


def test_git_of_the_demonstration_knows_how_to_ask_a_server(engine: DockerEngine, demo: str) -> None:
    """Where there is no network it fails for that reason, and not because a part of git is missing."""
    done = run(demo, "git", "clone", "-q", "https://git.example.test/x.git", "x")
    assert "Could not resolve host" in done.stderr


@pytest.mark.timeout(400)
def test_the_proxy_starts_with_nothing_writable_but_its_folders(engine: DockerEngine, proxy: str) -> None:
    done = run(proxy, "--version", entrypoint="egress")
    assert done.stdout.startswith("egress "), done.stderr


@pytest.mark.timeout(400)
def test_the_proxy_without_rules_says_so(engine: DockerEngine, proxy: str) -> None:
    done = run(proxy, "serve")
    assert done.returncode != 0
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(400)
def test_the_proxy_holds_exactly_what_the_lock_file_names(engine: DockerEngine, proxy: str) -> None:
    code = (
        "from importlib.metadata import distributions as d; print(*(f'{x.name}=={x.version}' for x in d()))"
    )
    done = run(proxy, *PYTHON, code, entrypoint="")
    installed = {plain(each) for each in done.stdout.split()}
    unused = {"tornado", "urwid", "wcwidth"}
    locked = {
        plain(each)
        for each in re.findall(r"^([\w.-]+==[\w.!+]+)", recipes.lock().read_text("utf-8"), re.MULTILINE)
    }
    assert len(installed) > 40
    # The rest of the lock file is for other systems, or for programs that the image does not have.
    assert installed <= locked
    assert not {each.partition("==")[0] for each in installed} & unused


@pytest.mark.timeout(400)
def test_the_proxy_is_small(engine: DockerEngine, proxy: str) -> None:
    command = ["docker", "image", "inspect", "--format", "{{.Size}}", proxy]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 125_000_000


@pytest.mark.timeout(400)
def test_the_proxy_refuses_a_secret_in_its_environment(
    engine: DockerEngine, proxy: str, tmp_path: Path
) -> None:
    rules = tmp_path / "hosts.yaml"
    rules.write_text(
        "version: 1\nsecrets: {t: {from: 'env:TOKEN', hosts: [api.example.test]}}\n"
        "hosts: {api.example.test: {allow: all, inject: [{bearer: t}]}}\n",
        "utf-8",
    )
    tmp_path.chmod(0o755)
    done = run(proxy, "serve", options=["-e", "TOKEN=in-the-open", "-v", f"{tmp_path}:/etc/egress:ro"])
    assert "holds secrets: TOKEN" in done.stderr
    assert "in-the-open" not in done.stderr + done.stdout


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("below", "works"), [("/state", True), ("", False)])
def test_a_state_folder_below_a_volume_of_a_group_is_taken(
    engine: DockerEngine, proxy: str, below: str, works: bool
) -> None:
    """As Kubernetes makes volumes: open to a group, which the state folder itself may not be."""
    volume = ["--tmpfs", "/volume:gid=10001,mode=2770", "--user", "10001:10001"]
    options = [*volume, "-e", f"EGRESS_STATE_DIR=/volume{below}"]
    done = run(proxy, "ca", "export", options=options)
    assert ("BEGIN CERTIFICATE" in done.stdout) is works
    assert ("error:" in done.stderr) is not works


@pytest.mark.timeout(400)
def test_trust_that_cannot_be_written_is_said_in_words(engine: DockerEngine, proxy: str) -> None:
    """A state folder that is not the proxy's own."""
    options = ["-e", "EGRESS_STATE_DIR=/nowhere/state"]
    script = "/opt/egress/share/trust.py"
    done = run(
        proxy, script, "/tmp", "/etc/t", "10.0.0.2", entrypoint="/opt/egress/bin/python", options=options
    )
    assert done.returncode != 0
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr


def test_the_door_is_one_program(engine: DockerEngine) -> None:
    done = run(product_images.door_image(engine), "/nowhere")
    assert "FileNotFoundError" in done.stderr


class BuildLines:
    """Keeps every line of a build."""

    def __init__(self, lines: list[str]) -> None:
        self.step = self.output = lines.append


def test_a_build_that_fails_names_its_log(engine: DockerEngine, tmp_path: Path) -> None:
    """With the engine's own output; the image would be empty, so that nothing is needed for it."""
    file = tmp_path / "Dockerfile"
    file.write_text("FROM scratch\nCOPY nothing /\n", "utf-8")
    recipe = recipes.Recipe("Dockerfile", {"Dockerfile": file})
    with pytest.raises(EngineError) as caught, logged_build("broken", tmp_path, is_verbose=False) as log:
        builder.build(engine, recipe, "egress-broken:1", {}, progress=log, is_offline=True)
    assert caught.value.message.startswith("cannot build the image: ")
    assert str(tmp_path / "build-broken.log") in caught.value.hint
    assert "COPY nothing /" in (tmp_path / "build-broken.log").read_text("utf-8")


@pytest.mark.timeout(400)
def test_an_image_that_is_there_is_not_made_again(engine: DockerEngine, proxy: str, demo: str) -> None:
    said: list[str] = []
    told = BuildLines(said)
    assert product_images.door_image(engine, progress=told) == product_images.door_image(
        engine, progress=told
    )
    assert bases.find_or_make_python(engine, said.append) == bases.find_or_make_python(engine, said.append)
    del said[:]
    product_images.door_image(engine, progress=told)
    bases.find_or_make_python(engine, said.append)
    assert said == []


def test_building_by_hand_names_what_can_be_built() -> None:
    command = [str(recipes.folder() / "build"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no such image: nothing" in done.stderr


@pytest.mark.usefixtures("engine")
def test_where_no_registry_is_reached_building_by_hand_says_what_to_do() -> None:
    command = [str(recipes.folder() / "build"), "sandbox", "--build-arg", "BASE_IMAGE=127.0.0.1:1/nothing"]
    environ = {"PATH": os.environ["PATH"], "DOCKER_CONFIG": "/nonexistent", "DOCKER_BUILDKIT": "0"}  # noqa: TID251
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()[-2:]
    assert error == "error: egress-sandbox was not built"
    assert hint.startswith("hint: where no registry is reached, a base can be made of packages")
    assert "BASE_IMAGE=" in hint


@pytest.mark.timeout(400)
def test_a_checkout_builds_by_hand(engine: DockerEngine) -> None:
    """`container/build`, with the client of the engine: context and recipe are right."""
    base = bases.find_or_make_python(engine)
    arguments = [
        "--build-arg",
        f"BASE_IMAGE={base}",
        "--build-arg",
        "PIP_NO_INDEX=1",
        "--network=none",
        "--force-rm",
    ]
    command = [str(recipes.folder() / "build"), "proxy", *arguments]
    environ = {"PATH": os.environ["PATH"], "DOCKER_CONFIG": "/nonexistent", "DOCKER_BUILDKIT": "0"}  # noqa: TID251
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    # There are no wheels in a checkout, and here no index: it gets as far as the first package.
    assert "Step 5" in done.stdout
    assert "No matching distribution found" in done.stdout + done.stderr


def package(folder: Path) -> None:
    """A package for each of two languages, each with a program."""
    with zipfile.ZipFile(folder / "thing-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("thing.py", "def main():\n    print('python')\n")
        info = "thing-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\nthing-py = thing:main\n")
        wheel.writestr(f"{info}/RECORD", "")
    about = {"name": "thing", "version": "1.0.0", "bin": {"thing-js": "program.js"}}
    (folder / "thing").mkdir()
    (folder / "thing/package.json").write_text(json.dumps(about), "utf-8")
    (folder / "thing/program.js").write_text("#!/usr/bin/env node\nconsole.log('node')\n", "utf-8")
    folder.chmod(0o755)


def plain(name: str) -> str:
    package, _, version = name.partition("==")
    return f"{re.sub(r'[-_.]+', '-', package).lower()}=={version}"
