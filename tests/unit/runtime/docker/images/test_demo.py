"""The demonstration out of this machine's files. That it runs is for tests/container."""

from __future__ import annotations

import functools
import tarfile

from egress.runtime.docker.image_tree import spool_archive
from egress.runtime.docker.images import bases
from egress.runtime.docker.images.demo import DEMO_USER_ID, demo_tree


@functools.cache
def members() -> dict[str, tarfile.TarInfo]:
    with spool_archive(demo_tree()) as (archive, _), tarfile.open(fileobj=archive) as tar:
        return {entry.name: entry for entry in tar.getmembers()}


def test_it_has_a_shell_the_small_tools_and_python() -> None:
    wanted = {"usr/bin/sh", "usr/bin/env", "usr/bin/find", "usr/bin/grep", "usr/local/bin/python3"}
    assert wanted <= members().keys()


def test_its_user_owns_the_workspace() -> None:
    found = members()["workspace"]
    assert (found.isdir(), found.uid, found.mode) == (True, DEMO_USER_ID, 0o755)


def test_git_finds_its_helpers_where_it_looks() -> None:
    found = members()
    if "usr/bin/git" in found:
        (helper,) = [entry for name, entry in found.items() if name.endswith("/git-remote-https")]
        assert helper.mode & 0o111


def test_equal_files_are_one_image() -> None:
    with spool_archive(demo_tree()) as (_, one), spool_archive(demo_tree()) as (_, two):
        assert one == two


def test_programs_from_elsewhere_find_the_libraries_of_older_systems() -> None:
    """Since 2.34 they are empty, and what is here already does not name them."""
    found = {name.rpartition("/")[2] for name in members()}
    wanted = {"librt.so.1", "libdl.so.2", "libpthread.so.0", "libutil.so.1", "libnss_files.so.2"}
    assert {name for name in wanted if bases.library(name)} <= found
