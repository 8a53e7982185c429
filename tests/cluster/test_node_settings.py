"""What `make cluster` writes for a node, as far as it can be looked at without one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from ipaddress import ip_address, ip_network
from pathlib import Path

from cryptography import x509

from scripts.cluster import addresses, binaries, certificates, images, settings
from scripts.cluster.folders import NodeFolders
from tests.cluster.shipped_fence import PROXY, manifest


def test_programs_are_built_again_when_any_of_their_sources_changes() -> None:
    written = {path.relative_to(binaries.HERE).as_posix() for path in binaries.HERE.glob("*/*.go")}
    modules = {path.relative_to(binaries.HERE).as_posix() for path in binaries.HERE.glob("*/go.*")}
    assert written | modules == set(binaries.SOURCES)


def test_the_addresses_are_those_that_themanifest_is_written_for() -> None:
    (proxy,) = [each for each in manifest() if each["kind"] == "Service"]
    assert proxy["spec"]["clusterIP"] == PROXY
    for address in (PROXY, addresses.API_SERVICE, addresses.DNS_SERVICE):
        assert ip_address(address) in ip_network(addresses.SERVICE_RANGE)
    assert f"clusterIP: {addresses.DNS_SERVICE}\n" in (binaries.HERE / "objects/dns.yaml").read_text("utf-8")


def test_every_client_has_a_kubeconfig_and_nobody_else_reads_its_key(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    certificates.write_all(folder)
    authority = x509.load_pem_x509_certificate((folder / "authority.crt").read_bytes())
    for client in certificates.CLIENTS:
        assert (folder / f"{client.file}.key").stat().st_mode & 0o077 == 0
        certificate = x509.load_pem_x509_certificate((folder / f"{client.file}.crt").read_bytes())
        certificate.verify_directly_issued_by(authority)
        config = json.loads((folder / f"{client.file}.kubeconfig").read_text("utf-8"))
        assert config["clusters"][0]["cluster"]["server"] == "https://10.77.0.2:6443"


def test_a_small_range_of_addresses_is_part_of_the_network_of_pods(tmp_path: Path) -> None:
    settings.write_pod_network(tmp_path, "10.244.0.20", "10.244.0.22")
    (file,) = tmp_path.iterdir()
    (ranges,) = json.loads(file.read_text("utf-8"))["plugins"][0]["ipam"]["ranges"]
    expected = {"subnet": "10.244.0.0/24", "rangeStart": "10.244.0.20", "rangeEnd": "10.244.0.22"}
    assert ranges == [expected]


def test_settings_hold_no_path_but_those_of_the_node(tmp_path: Path) -> None:
    node = NodeFolders(tmp_path)
    settings.write_all(node)
    kubelet = json.loads((tmp_path / "kubelet.yaml").read_text("utf-8"))
    assert kubelet["tlsPrivateKeyFile"] == str(node.keys / "node.key")
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert str(node.containerd_socket) in (tmp_path / "containerd.toml").read_text("utf-8")


def test_an_archive_is_an_image_with_one_program(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    with tarfile.open(fileobj=io.BytesIO(images.archive(images.PAUSE, program))) as archive:
        manifest = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]
        assert manifest == [{"Config": "config.json", "RepoTags": [images.PAUSE], "Layers": ["layer.tar"]}]
        with tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer:
            assert [(each.name, each.mode) for each in layer] == [("pause", 0o755)]


def test_a_wrong_word_is_answered_with_the_right_ones() -> None:
    command = [sys.executable, "-m", "scripts.cluster", "start"]
    done = subprocess.run(command, cwd=binaries.HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "python -m scripts.cluster up" in done.stderr
