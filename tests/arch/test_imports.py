"""Who imports whom: the contracts cover every pure module and see a violation; a start loads little.

That the contracts hold is checked by `make contracts`; here we prove that they can fail.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
CONTRACTS = {contract["id"]: contract for contract in TOOLS["importlinter"]["contracts"]}
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def below_the_services() -> set[str]:
    """The modules from `exchange` down, less the two without logic."""
    layers = CONTRACTS["layers"]["layers"]
    row = " | ".join(layers[layers.index("(exchange)") :])
    return {f"egress.{name.strip(' ()')}" for name in row.split("|")} - {"egress.types", "egress.errors"}


def test_no_pure_module_is_exempt_from_the_contract_of_purity() -> None:
    exempt = {line.partition(" ->")[0].removesuffix(".**") for line in CONTRACTS["pure"]["ignore_imports"]}
    assert not exempt & below_the_services()


def test_mypy_forbids_any_where_verdicts_and_credentials_are_made() -> None:
    strictest = {
        name for o in TOOLS["mypy"]["overrides"] if o.get("disallow_any_explicit") for name in o["module"]
    }
    assert {f"{module}.*" for module in below_the_services()} <= strictest


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The control: a copy as it is keeps every contract. What was read of its modules is kept."""
    tree, known = (tmp_path_factory.mktemp(name) for name in ("tree", "known"))
    kept = lint(copy_of_the_tree(tree), *CONTRACTS, known=known)
    assert kept.returncode == 0, kept.stdout
    return known


@pytest.mark.parametrize(
    ("contract", "module", "line"),
    [
        ("layers", "egress/types.py", "from egress import errors"),
        ("layers", "egress/brand_new.py", "import json"),
        ("pure", "egress/types.py", "import os"),
        ("pure", "egress/errors.py", "from time import monotonic"),
        ("pure", "egress/errors.py", "def late() -> None:\n    import socket"),
        ("mitmproxy", "egress/errors.py", "from mitmproxy.http import Headers"),
        ("docker", "egress/errors.py", "from docker.errors import DockerException"),
        ("rich", "egress/errors.py", "from rich.table import Table"),
        ("cycles", "egress/types.py", "from egress import errors"),
    ],
)
def test_a_violation_is_found(contract: str, module: str, line: str, tmp_path: Path, untouched: Path) -> None:
    tree = copy_of_the_tree(tmp_path)
    append(tree / module, line)
    if contract == "cycles":
        append(tree / "egress/errors.py", "from egress import types")

    broken = lint(tree, contract, known=untouched)
    assert broken.returncode == 1, broken.stdout
    assert "BROKEN" in broken.stdout


def test_a_room_may_do_its_own_work(tmp_path: Path, untouched: Path) -> None:
    """The twin of the test above: the contracts do not simply forbid everything."""
    tree = copy_of_the_tree(tmp_path)
    append(tree / "egress/policy/brand_new.py", "import os")
    append(tree / "egress/proxy/process/brand_new.py", "import asyncio\nimport mitmproxy.http")
    append(tree / "egress/runtime/docker.py", "import docker")
    append(tree / "egress/cli/render.py", "import rich")
    kept = lint(tree, *CONTRACTS, known=untouched)
    assert kept.returncode == 0, kept.stdout


def copy_of_the_tree(folder: Path) -> Path:
    shutil.copytree(ROOT / "egress", folder / "egress", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def append(module: Path, line: str) -> None:
    module.parent.mkdir(exist_ok=True)
    (module.parent / "__init__.py").touch()
    with module.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")


def lint(tree: Path, *contracts: str, known: Path) -> subprocess.CompletedProcess[str]:
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    command = [str(LINT_IMPORTS), "--no-logo", "--cache-dir", str(known), *chosen]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


# What a start loads ---------------------------------------------------------------------------


def loaded_by(code: str) -> set[str]:
    """The top-level names of everything that `code` imports in a fresh interpreter."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def test_importing_egress_loads_nothing_but_the_standard_library() -> None:
    before = loaded_by("")
    assert loaded_by("import egress") - before - sys.stdlib_module_names == {"egress"}


def test_help_loads_neither_mitmproxy_nor_docker() -> None:
    ask = "import sys\nfrom egress.cli.main import main\nsys.argv = ['egress', '--help']\n"
    loaded = loaded_by(ask + "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code")
    assert "click" in loaded
    assert not loaded & {"mitmproxy", "docker"}
