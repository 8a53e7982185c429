"""The kit as a whole: equal for equal input, complete, and without a trace of a key (S-41)."""

from __future__ import annotations

import ast
import base64
import itertools
import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from egress.ca import Authority, merged_bundle, public_roots
from egress.errors import ContentError, UsageError
from egress.runtime import kit as package
from egress.runtime.kit import Kit, ProxyAddress, make_kit

NOW = 1_800_000_000
AUTHORITY = Authority.create("box", NOW)
DOOR = ProxyAddress("10.9.8.7")
ROOTS = public_roots()


def made(**options: object) -> Kit:
    return make_kit(AUTHORITY.certificate_pem, ROOTS, DOOR, **options)  # type: ignore[arg-type]


KIT = made()


def ders(pem: bytes) -> list[bytes]:
    return [found.public_bytes(Encoding.DER) for found in x509.load_pem_x509_certificates(pem)]


def own() -> bytes:
    return AUTHORITY.certificate.public_bytes(Encoding.DER)


# What is in it ------------------------------------------------------------------------------------


def test_all_files_lie_in_its_folder_readable_by_all_and_writable_by_nobody() -> None:
    assert KIT.folder == "/etc/egress"
    assert all(path.startswith("/etc/egress/") for path in KIT.files)
    assert {file.mode for file in KIT.files.values()} == {0o444}
    assert all(file.content for file in KIT.files.values())


def test_the_certificate_stands_alone_in_its_file_and_in_its_folder() -> None:
    assert ders(KIT.files["/etc/egress/ca.pem"].content) == [own()]
    (hashed,) = (path for path in KIT.files if path.startswith("/etc/egress/certs/"))
    assert re.fullmatch(r"/etc/egress/certs/[0-9a-f]{8}\.0", hashed)
    assert KIT.files[hashed].content == KIT.files["/etc/egress/ca.pem"].content


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_the_bundle_holds_the_public_roots_and_ours_as_the_exported_one_does() -> None:
    bundle = KIT.files["/etc/egress/bundle.pem"].content
    assert ders(bundle) == ders(merged_bundle(AUTHORITY.certificate_pem))
    assert ders(bundle)[-1] == own()


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_java_is_given_the_same_certificates() -> None:
    store = pkcs12.load_pkcs12(KIT.files["/etc/egress/truststore.p12"].content, b"changeit")
    found = {each.certificate.public_bytes(Encoding.DER) for each in store.additional_certs}
    assert found == set(ders(KIT.files["/etc/egress/bundle.pem"].content))


def test_an_authority_that_is_among_the_roots_already_stands_there_once() -> None:
    again = make_kit(AUTHORITY.certificate_pem, AUTHORITY.certificate_pem + ROOTS, DOOR)
    assert again.files == KIT.files


def test_everything_that_is_named_is_there() -> None:
    """By the variables and by the mounts: a name that leads nowhere breaks the program that reads it."""
    there = {*KIT.files, *(path.rpartition("/")[0] for path in KIT.files)}
    named = re.findall(r"/etc/egress[^ :;]*", " ".join(KIT.variables.values()))
    assert named
    assert {*named, *(each.source for each in KIT.overmounts)} <= there


def test_no_file_is_there_for_nobody() -> None:
    settings = b"".join(file.content for path, file in KIT.files.items() if ".p" not in path).decode()
    named = " ".join([*KIT.variables.values(), settings, *(each.source for each in KIT.overmounts)])
    unnamed = {
        path for path in KIT.files if path not in named and path.rpartition("/")[0] not in named.split()
    }
    # PHP reads all of its folder, and the settings of Maven are named on a command line.
    assert unnamed == {"/etc/egress/maven-settings.xml", "/etc/egress/php/egress.ini"}


def test_it_can_lie_elsewhere() -> None:
    kit = made(folder="/opt/kit")
    assert kit.folder == "/opt/kit"
    everything = [*kit.files, *kit.variables.values(), *(each.source for each in kit.overmounts)]
    everything += [file.content.decode("latin-1") for file in kit.files.values()]
    assert not [text for text in everything if "/etc/egress" in text]
    assert len(kit.files) == len(KIT.files)


def test_equal_input_makes_an_equal_kit() -> None:
    """Nothing of it is chance and nothing the clock: a restarted sandbox is given the same bytes."""
    assert made() == KIT
    assert made(stand_ins={"A": "1"}) != KIT


def test_it_stays_as_it_was_made() -> None:
    with pytest.raises(FrozenInstanceError):
        KIT.folder = "/elsewhere"  # type: ignore[misc]
    with pytest.raises(TypeError):
        KIT.variables["SSL_CERT_FILE"] = "/elsewhere"  # type: ignore[index]
    with pytest.raises(TypeError):
        del KIT.files["/etc/egress/ca.pem"]  # type: ignore[attr-defined]


# Stand-ins ----------------------------------------------------------------------------------------


def test_stand_ins_are_among_the_variables() -> None:
    stand_ins = {"GITHUB_TOKEN": "ghp_" + "0" * 36, "ANTHROPIC_API_KEY": "sk-ant-api03-stand-in"}
    kit = made(stand_ins=stand_ins)
    assert kit.variables == {**KIT.variables, **stand_ins}
    assert kit.files == KIT.files


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A B", "A=B", "Ä", "A\0", "A\n", "${A}", "A.B", " A"])
def test_a_stand_in_stands_in_a_variable(name: str) -> None:
    with pytest.raises(UsageError, match="invalid name of a variable"):
        made(stand_ins={name: "stand-in"})


@pytest.mark.parametrize("value", ["a\0b", "a\udc80b", "x" * 131_072])
def test_a_stand_in_can_be_handed_to_a_program(value: str) -> None:
    with pytest.raises(UsageError, match="the value of TOKEN"):
        made(stand_ins={"TOKEN": value})


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "HTTPS_PROXY", "JAVA_TOOL_OPTIONS"])
def test_a_stand_in_does_not_undo_the_kit(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is a variable of the kit"):
        made(stand_ins={name: "stand-in"})


# No key -------------------------------------------------------------------------------------------


def produced(kit: Kit) -> bytes:
    """Every byte of a kit."""
    texts = [kit.folder, *itertools.chain(*kit.variables.items()), *kit.files]
    texts += [word for each in kit.overmounts for word in (each.source, each.target)]
    return b"\n".join([*(text.encode() for text in texts), *(file.content for file in kit.files.values())])


def traces(key: ec.EllipticCurvePrivateKey) -> Iterator[bytes]:
    """The number that a key is, in every form in which it could have come along."""
    number = key.private_numbers().private_value.to_bytes(32, "big")
    yield from (number, number[::-1], number.hex().encode(), number.hex().upper().encode())
    whole = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    for start in range(3):
        for text in (number, whole):
            # The ends of such a text depend on what stands beside it.
            yield base64.b64encode(text[start:])[4:-8]


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_no_byte_of_it_is_of_a_key() -> None:
    """S-41. The traces are such that they would be found: they are in the key's own file."""
    everything = produced(KIT)
    for key in (AUTHORITY._key, AUTHORITY._leaf_key):
        for trace in traces(key):
            assert trace not in everything
    assert b"PRIVATE" not in everything
    assert pkcs12.load_pkcs12(made().files["/etc/egress/truststore.p12"].content, b"changeit").key is None


def test_a_key_would_be_found() -> None:
    key = AUTHORITY._key
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).replace(b"\n", b"")
    der = key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert any(trace in pem for trace in traces(key))
    assert any(trace in der for trace in traces(key))


def test_every_block_of_every_file_is_a_certificate() -> None:
    labels = re.findall(rb"-----BEGIN ([^-]*)-----", produced(KIT))
    assert set(labels) == {b"CERTIFICATE"}


def test_a_key_that_is_handed_in_makes_no_kit() -> None:
    key = AUTHORITY._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificate = AUTHORITY.certificate_pem
    for authority, roots in ((key + certificate, ROOTS), (certificate, ROOTS + key)):
        with pytest.raises(ContentError, match="holds a private key"):
            make_kit(authority, roots, DOOR)


def test_it_knows_of_authorities_only_how_a_certificate_is_read() -> None:
    """No file of it could come by a key: of `egress.ca` it imports what reads certificates, and no input."""
    allowed = {"egress.ca.bundle", "egress.errors", "egress.rules.language.hosts"}
    allowed |= {"egress.runtime.environ", "egress.runtime.proxy_address"}
    for path in Path(package.__file__).parent.glob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = {name for node in tree for name in imported(node)}
        assert not found & {"os", "pathlib", "io", "socket", "subprocess", "tempfile", "shutil", "secrets"}
        own = {name for name in found if name.startswith("egress.runtime.kit")}
        assert {name for name in found - own if name.startswith("egress")} <= allowed, path


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
