"""Package managers, git, gRPC and what signs for itself: tests of each are run again, with the kit alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import (
    test_apt,
    test_cargo,
    test_git,
    test_go,
    test_grpc,
    test_maven,
    test_npm,
    test_pnpm,
    test_python_packages,
    test_ruby,
    test_signatures,
)
from tests.proxy.clients.client import Client
from tests.proxy.clients.scene import WANTED, certs
from tests.proxy.clients.stage import Stage, staged
from tests.proxy.clients.standins import maven
from tests.proxy.clients.standins.debian import APART, FOLDERS, archive, sources
from tests.proxy.clients.standins.static_files import shelve
from tests.proxy.clients.test_git import Forge, forge  # noqa: F401 - pytest finds the fixture here
from tests.proxy.clients.test_grpc import Call, call  # noqa: F401 - this one as well
from tests.proxy.lab.proxy_stack import NAME, OTHER
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.runtime.kit.client_requirements import require, running
from tests.runtime.kit.kit_stage import KitStage, by_mounts, by_variables, whole


@pytest.fixture
async def locked(namespace: None, tmp_path: Path) -> AsyncIterator[KitStage[RawUpstream]]:
    """An upstream that shows nothing to those who have no credential."""
    async with staged(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as stage:
        yield whole(stage, tmp_path)


@running(test_cargo.CARGO)
async def test_cargo_fetches_a_crate(stage: KitStage[RawUpstream], client: Client) -> None:
    await test_cargo.test_a_crate_is_fetched(stage)


@running(test_go.MODULES)
async def test_go_downloads_a_module(stage: KitStage[RawUpstream], client: Client) -> None:
    await test_go.test_a_module_is_downloaded(stage)


@running(test_ruby.GEM)
async def test_gem_installs(stage: KitStage[RawUpstream], client: Client, tmp_path: Path) -> None:
    await test_ruby.test_a_gem_is_installed_from_an_index_that_wants_none(stage, tmp_path)


@running(test_maven.MAVEN)
async def test_maven_resolves_by_the_properties_of_the_jvm(
    stage: KitStage[RawUpstream], client: Client
) -> None:
    told = {"MAVEN_OPTS": stage.filled(client.around["MAVEN_OPTS"])}
    await test_maven.test_a_jar_is_resolved(replace(stage, variables={**stage.variables, **told}))


@running(test_maven.MAVEN)
async def test_maven_resolves_by_the_settings_of_the_kit(
    stage: KitStage[RawUpstream], client: Client
) -> None:
    """They are there for versions that look at nothing else: here the properties name no proxy."""
    options = stage.variables["JAVA_TOOL_OPTIONS"].split()
    trust = " ".join(option for option in options if "trustStore" in option)
    told = {"JAVA_TOOL_OPTIONS": trust, "MAVEN_OPTS": stage.filled(client.around["MAVEN_OPTS"])}
    shelve(stage.scene.upstream, maven.repository(test_maven.AT))
    (stage.home / "pom.xml").write_text(maven.project(stage.url(test_maven.AT, OTHER)))
    bare = replace(stage, variables={**stage.variables, **told})
    command = ("mvn", "--batch-mode", "--global-settings", "/etc/egress/maven-settings.xml", "validate")
    ran = await bare.run(client, *command)
    assert ran.status == 0, ran.text
    assert (stage.home / test_maven.JAR).read_bytes() == maven.jar()


@running(test_npm.NPM)
async def test_npm_installs(locked: KitStage[RawUpstream], client: Client) -> None:
    await test_npm.test_a_package_is_installed_from_a_registry_that_wants_a_credential(locked)


@running(test_npm.NPM)
async def test_npm_installs_where_the_image_configures_another_bundle(
    locked: KitStage[RawUpstream], client: Client
) -> None:
    """There npm does not look at what Node is told."""
    (locked.home / "empty.pem").touch()
    (locked.home / ".npmrc").write_text(f"cafile={locked.home}/empty.pem\n")
    await test_npm.test_a_package_is_installed_from_a_registry_that_wants_a_credential(locked)


@running(test_pnpm.PNPM)
async def test_pnpm_installs(
    locked: KitStage[RawUpstream], client: Client, request: pytest.FixtureRequest
) -> None:
    require(client, request)
    await test_pnpm.test_a_package_is_installed_from_a_registry_that_wants_a_credential(locked)


@running(test_python_packages.PIP, test_python_packages.UV)
async def test_pip_and_uv_install(
    locked: KitStage[RawUpstream], client: Client, request: pytest.FixtureRequest
) -> None:
    require(client, request)
    index = test_python_packages.test_a_package_is_installed_from_an_index_that_wants_a_credential
    await index(locked, client)


@running(test_signatures.BOTOCORE)
async def test_botocore_signs(
    stage: KitStage[RawUpstream], client: Client, request: pytest.FixtureRequest
) -> None:
    require(client, request)
    await test_signatures.test_what_it_signed_arrives_as_it_was(stage, 1000)


@running(test_git.GIT)
async def test_git_clones(namespace: None, forge: Forge, client: Client, tmp_path: Path) -> None:  # noqa: F811
    await test_git.test_a_clone_is_given_the_credential(replace(forge, stage=whole(forge.stage, tmp_path)))


@running(test_git.LFS)
@pytest.mark.system("git-lfs", "git-lfs")
async def test_git_lfs_is_refused_by_the_rules_and_not_by_trust(
    namespace: None,
    forge: Forge,  # noqa: F811
    client: Client,
    tmp_path: Path,
) -> None:
    kitted = replace(forge, stage=whole(forge.stage, tmp_path))
    await test_git.test_large_files_stored_elsewhere_are_denied_where_no_rule_allows_the_batch(kitted)


@running(test_grpc.GRPC)
async def test_grpc_makes_calls(namespace: None, call: Call, client: Client, tmp_path: Path) -> None:  # noqa: F811
    await test_grpc.test_the_environment_is_enough(replace(call, stage=whole(call.stage, tmp_path)))


# apt --------------------------------------------------------------------------------------------


async def update(stage: Stage[RawUpstream]) -> None:
    """Have an apt whose root is at home fetch the lists of an archive; the kit says how it gets there."""
    shelve(stage.scene.upstream, archive("/debian", b"hello\n"))
    for folder in FOLDERS:
        (stage.home / folder).mkdir(parents=True, exist_ok=True)
    (stage.home / "var/lib/dpkg/status").touch()
    (stage.home / "etc/apt/sources.list").write_text(sources(stage.url("/debian", OTHER)))
    (stage.home / "apart").write_text(stage.filled(APART))
    apt = ("apt-get", f"--config-file={stage.home}/apart", "update", "--error-on=any")
    ran = await stage.run(test_apt.APT, *apt)
    assert ran.status == 0, ran.err
    assert stage.scene.stack.exchanges()


@running(test_apt.APT)
async def test_apt_fetches_lists(stage: KitStage[RawUpstream], client: Client) -> None:
    await update(stage)


@running(test_apt.APT)
async def test_apt_fetches_lists_by_its_variable(
    bare: Stage[RawUpstream], client: Client, tmp_path: Path
) -> None:
    await update(by_variables(bare, tmp_path))


@running(test_apt.APT)
async def test_apt_fetches_lists_behind_sudo_which_drops_every_variable(
    namespace: None, bare: Stage[RawUpstream], client: Client, tmp_path: Path
) -> None:
    await update(replace(by_mounts(bare, tmp_path), variables={}))
