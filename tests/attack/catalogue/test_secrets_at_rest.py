"""Where secrets must not be: in processes and their files, in what is printed, in what a sandbox is given.

Looked for by the leak detector, and by a process of the same user that reads whatever it may of another one.
"""

from __future__ import annotations

import functools
import json
import os
import re
import secrets
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.attack.lab import harm
from tests.attack.lab.added_sandbox import control, control_raw
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.commands import program_in, run_in
from tests.attack.lab.harm import Finding, Harm, must_be_none
from tests.attack.lab.lab import Lab
from tests.attack.lab.leak_detector import leaks
from tests.attack.lab.mixed_traffic import MixedTraffic
from tests.attack.lab.names import ANY, API, Credential
from tests.attack.lab.proxies import Egress, Proxy, running
from tests.cli.command import put

pytestmark = [pytest.mark.system("ip", "iproute2"), pytest.mark.system("setpriv", "util-linux")]

GIVEN: Final = f"given.{ANY}"
"""Its secret comes from the environment."""
PRINTED: Final = f"printed.{ANY}"
"""Its secret is what a program prints."""
FROM_VARIABLE: Final = Credential("given", f"tok_{secrets.token_hex(16)}".encode(), (GIVEN,))
FROM_PROGRAM: Final = Credential("printed", f"pat_{secrets.token_hex(16)}".encode(), (PRINTED,))

PROGRAM = """
import os, pathlib, sys
seen = [pathlib.Path("/proc/self/environ").read_bytes(), pathlib.Path("/proc/self/cmdline").read_bytes()]
seen += [os.readlink(f"/proc/self/fd/{n}").encode() for n in os.listdir("/proc/self/fd") if int(n) > 2 and
         os.path.exists(f"/proc/self/fd/{n}")]
pathlib.Path(sys.argv[1]).write_bytes(b"\\n".join(seen))
print(pathlib.Path(sys.argv[2]).read_text())
sys.stderr.write(pathlib.Path(sys.argv[2]).read_text())
"""
"""What a password manager could be: it notes what it gets to see, and says its secret on both streams."""


def make(lab: Lab, *arguments: str) -> Egress:
    """An Egress with secrets of every source, not started yet; its temporary files lie with its own."""
    words = (sys.executable, "-I", "-S", "HOME/manager.py", "HOME/seen", "HOME/secrets/printed")
    extra = (
        f"  given: {{from: 'env:LAB_TOKEN', hosts: [{GIVEN}]}}\n"
        f"  printed: {{from: {{command: {json.dumps(words)}}}, hosts: [{PRINTED}]}}\n"
    )
    text = lab.rules().replace("secrets:\n", f"secrets:\n{extra}", 1)
    for name in ("given", "printed"):
        text += f"  {name}.{ANY}: {{allow: all, inject: [{{bearer: {name}}}]}}\n"
    proxy = lab.make_egress(text, *arguments, env={"LAB_TOKEN": FROM_VARIABLE.value.decode()})
    proxy._env["TMPDIR"] = str(proxy.folder / "tmp")
    (proxy.folder / "tmp").mkdir()
    put(proxy.rules, proxy.rules.read_text().replace("HOME", str(proxy.folder)))
    put(proxy.folder / "manager.py", PROGRAM)
    put(proxy.folder / "secrets/printed", FROM_PROGRAM.value.decode()).chmod(0o600)
    return proxy


def everything(lab: Lab) -> tuple[Credential, ...]:
    return (*lab.secrets.all, FROM_VARIABLE, FROM_PROGRAM)


@pytest.fixture(scope="module")
def egress(lab: Lab) -> Iterator[Egress]:
    """One with secrets of every source, which says as much as it can, and forbids nobody anything."""
    proxy = make(lab, "--log-level", "debug", "--handover")
    proxy.within = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    with running(proxy):
        lab.begin(proxy)
        yield proxy
        found = lab.at_the_end(proxy)
    must_be_none(found)


def must_not_show(lab: Lab, texts: Sequence[tuple[str, bytes]], what: Harm = Harm.LOGGED) -> None:
    """Raise a finding for the first secret in any of these, whatever was done to it."""
    for finding in harm.logged(texts, everything(lab)):
        raise Finding(what, str(finding))


# Processes --------------------------------------------------------------------------------------

ALONE: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")
"""Without any of root's rights, which would let it read every process."""

READER = r"""
import os, sys
values = [bytes.fromhex(word) for word in os.environ["VALUES"].split(",")]
def look(name, data):
    if any(value in data for value in values):
        print("found in", name, flush=True)
def memory(path):
    with open(f"{path}/maps") as maps, open(f"{path}/mem", "rb", 0) as mem:
        for line in maps:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("r") and end - begin < 1 << 28:
                try:
                    mem.seek(begin)
                    look("mem", mem.read(end - begin))
                except (OSError, ValueError, OverflowError):
                    pass
for pid in sys.argv[1:]:
    path = f"/proc/{pid}"
    for name in ("environ", "cmdline", "auxv", "maps", "smaps", "stack", "task/" + pid + "/environ"):
        try:
            look(name, open(f"{path}/{name}", "rb").read())
        except OSError:
            pass
    try:
        for number in os.listdir(f"{path}/fd"):
            with open(f"{path}/fd/{number}", "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as file:
                look(f"fd {os.readlink(f'{path}/fd/{number}')}", os.pread(file.fileno(), 1 << 20, 0))
    except OSError:
        pass
    try:
        memory(path)
    except OSError:
        pass
"""


def read_by_another(lab: Lab, proxy: Proxy) -> str:
    """Where a process of the same user finds a secret in those of a proxy."""
    assert proxy.process is not None
    family = map(str, lab.network.family(proxy.process.pid))
    values = ",".join(each.value.hex() for each in everything(lab))
    argv = (*ALONE, sys.executable, "-I", "-S", "-c", READER, *family)
    outcome = program_in(proxy.room, lab.folder, *argv, env={"VALUES": values})
    assert outcome.err == "", outcome.err
    return outcome.out


@case("S-39 S-40", "another process of the same user", Harm.TAKEN)
def test_another_process_of_the_same_user(lab: Lab, proxy: Proxy) -> None:
    """It reads neither memory nor environment, finds nothing in open files, and gets no core."""
    own = make(lab) if isinstance(proxy, Egress) else lab.make_naive()
    own.within = ("sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh", *ALONE)
    with running(own):
        lab.begin(own)
        lab.control(own)
        if isinstance(own, Egress):
            for each in (FROM_VARIABLE, FROM_PROGRAM):
                (host,) = each.hosts
                assert own.ask(host, request(host, "/small")).status == 200
            heard = lab.heard(own, f"*.{ANY}")
            assert all(each.value in heard for each in (FROM_VARIABLE, FROM_PROGRAM)), "they are in use"
        if places := read_by_another(lab, own):
            raise Finding(Harm.TAKEN, places)
        assert isinstance(own, Egress)
        assert own.process is not None
        limits = lab.network.read(f"/proc/{own.process.pid}/limits").decode()
        assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
        must_not_show(lab, _open_files(lab, own))
        before = set(own.folder.rglob("*"))
        own.signal(signal.SIGSEGV)
        assert own.ended() == -signal.SIGSEGV
        assert {path for path in own.folder.rglob("*") if "core" in path.name} <= before
        must_not_show(lab, lab.written(own))


def _open_files(lab: Lab, proxy: Egress) -> list[tuple[str, bytes]]:
    """What its descriptors lead to, as root sees it: among them files that have no name any more."""
    found = []
    for pid in lab.network.family(proxy.process.pid) if proxy.process else ():
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(link)  # noqa: PTH115 - some lead to nothing
                assert "egress-handed-over" not in target
                if target.startswith("/") and stat.S_ISREG(link.stat().st_mode):
                    found.append((target, link.read_bytes()))
    assert any("audit" in target for target, _ in found), "files can be looked at"
    return found


KEPT: Final = ("audit.key", "default.pem", "default.key", "control.sock", "handover.sock", "in-flight")


def _modes(proxy: Egress) -> dict[str, int]:
    """Which rights others have to all that it keeps."""
    folders = (proxy.state, proxy.runtime)
    paths = (path for folder in folders for path in (folder, *folder.rglob("*")))
    return {str(path.relative_to(proxy.folder)): stat.S_IMODE(path.lstat().st_mode) for path in paths}


def test_keys_and_sockets_are_for_their_owner_alone(egress: Egress) -> None:
    """Whatever the umask says; and so are the folders that they lie in."""
    modes = _modes(egress)
    assert {Path(name).name for name in modes} >= {*KEPT}
    folders = [str(folder.relative_to(egress.folder)) for folder in (egress.state, egress.runtime)]
    for name in (*folders, *(name for name in modes if Path(name).name in KEPT)):
        assert modes[name] & 0o077 == 0, (name, oct(modes[name]))


def test_nobody_else_may_write_what_it_keeps(egress: Egress) -> None:
    open_to_others = {name: oct(mode) for name, mode in _modes(egress).items() if mode & 0o022}
    assert open_to_others == {}


@case("S-40", "the program of a secret", Harm.TAKEN)
def test_the_program_of_a_secret(lab: Lab, proxy: Proxy) -> None:
    """It gets no other secret: not in its environment, its arguments, or a descriptor that was left open."""
    if not isinstance(proxy, Egress):
        # It runs what rules name when it reads them.
        folder = proxy.folder
        put(folder / "manager.py", PROGRAM)
        put(folder / "printed", "anything")
        files = (f"{folder}/{name}" for name in ("manager.py", "seen", "printed"))
        words = json.dumps((sys.executable, "-I", "-S", *files))
        text = f"secrets: {{p: {{from: {{command: {words}}}}}}}\nhosts: {{test: {{}}}}\n"
        named = put(folder / "hosts.yaml", text)
        proxy.ask(API, request(API, "/small"))
        named.unlink()
    else:
        assert proxy.ask(PRINTED, request(PRINTED, "/small")).status == 200
    seen = (proxy.folder / "seen").read_bytes()
    assert b"manager.py" in seen
    must_not_show(lab, [("what it saw", seen)], Harm.TAKEN)


# What is printed --------------------------------------------------------------------------------

ASKED: Final = (
    *(("GET", f"/{name}") for name in ("healthz", "readyz", "status", "placeholders", "secrets", "")),
    *(("POST", f"/{name}") for name in ("reload", "kill", "sandboxes", "status")),
    *(("DELETE", f"/sandboxes/{name}") for name in ("default", "nobody")),
)
COMMANDS: Final = (
    *("status", "status --json", "doctor --rules hosts.yaml", "doctor --rules hosts.yaml --json"),
    *(f"explain GET https://{GIVEN}/ --rules hosts.yaml", "rules show hosts.yaml --json"),
    *("--debug kill nothing", "serve --settings", "--debug serve --rules hosts.yaml", "ca show --json"),
)


@case("S-38 S-40 S-72", "what is printed about itself", Harm.TAKEN)
def test_what_is_printed_about_itself(lab: Lab, proxy: Proxy) -> None:
    """By a proxy in trouble, at the level `debug`; by every command; and on the control socket."""
    MixedTraffic(lab, proxy).run()
    if not isinstance(proxy, Egress):
        page = proxy.say(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        must_not_show(lab, [("its page", page.raw + page.body)], Harm.TAKEN)
        return
    text = proxy.rules.read_text(encoding="utf-8")
    said = []
    for mistake in ("  hots: }\n", "  new.test: {allow: [{id: x, path: [/]}]}\n"):
        proxy.write(text + mistake)
        said.append(("a reload", control_raw(proxy, "POST", "/reload")[1]))
    proxy.write(text)
    assert control(proxy, "POST", "/reload")[0] == 200
    kills = [_json(name=name, undo=undo) for name in ("given", API) for undo in (False, True)]
    asked = [("POST", "/kill", body) for body in kills]
    bodies = (b"", b"{}", _json(name=7), b"\xff")
    asked += [(method, path, body) for method, path in ASKED for body in bodies]
    said += [(f"{method} {path}", control_raw(proxy, method, path, body)[1]) for method, path, body in asked]
    with ThreadPoolExecutor(3) as several:
        run = functools.partial(run_in, proxy.room, proxy.folder, env=_env(proxy))
        for words, outcome in zip(
            COMMANDS, several.map(lambda each: run(*each.split()), COMMANDS), strict=True
        ):
            said.append((words, outcome.said.encode()))
            assert "Traceback" not in outcome.said, words
    must_not_show(lab, said, Harm.TAKEN)
    must_not_show(lab, lab.written(proxy), Harm.TAKEN)
    assert any(b"given" in data for _, data in said), "they are told by name"


def _json(**values: object) -> bytes:
    return json.dumps(values).encode()


def _env(proxy: Egress) -> dict[str, str]:
    return {
        "EGRESS_RUNTIME_DIR": str(proxy.runtime),
        "EGRESS_UPSTREAM_CA": proxy.arguments[proxy.arguments.index("--upstream-ca") + 1],
        "LAB_TOKEN": FROM_VARIABLE.value.decode(),
    }


PASTED: Final[Mapping[str, str]] = {
    "a source": "secrets: {a: {from: SECRET, hosts: [x.test]}}",
    "a source with a scheme": "secrets: {a: {from: 'env:VALUE', hosts: [x.test]}}",
    "a source of no kind": "secrets: {a: {from: {value: SECRET}, hosts: [x.test]}}",
    "a program": "secrets: {a: {from: {command: SECRET}, hosts: [x.test]}}",
    "a name of a secret": "secrets: {SECRET: {from: 'env:A', hosts: [x.test]}}",
    "a host of a secret": "secrets: {a: {from: 'env:A', hosts: [SECRET]}}",
    "a key": "SECRET: 1",
    "a key said twice": "SECRET: 1\nSECRET: 2",
    "a host": "hosts: {SECRET: {}}",
    "an entry": "hosts: {x.test: SECRET}",
    "a key of an entry": "hosts: {x.test: {SECRET: 1}}",
    "an id": "hosts: {x.test: {allow: [{id: SECRET}]}}",
    "a method": "hosts: {x.test: {methods: [SECRET]}}",
    "a path": "hosts: {x.test: {paths: [SECRET]}}",
    "a name in a query": "hosts: {x.test: {query: {SECRET: [1]}}}",
    "a field": "hosts: {x.test: {headers: {authorization: [SECRET]}}}",
    "a type": "hosts: {x.test: {content_type: [SECRET]}}",
    "a rate": "hosts: {x.test: {limits: {requests: SECRET}}}",
    "a moment": "hosts: {x.test: {expires: SECRET}}",
    "an injection": "hosts: {x.test: {allow: all, inject: [SECRET]}}",
    "a bearer": "hosts: {x.test: {allow: all, inject: [{bearer: SECRET}]}}",
    "a format": "hosts: {x.test: {allow: all, inject: [{header: {name: a, secret: a, format: SECRET}}]}}",
    "a password": "hosts: {x.test: {allow: all, inject: [{basic: {user: me, password: SECRET}}]}}",
    "a test": "hosts: {x.test: {tests: [SECRET]}}",
    "a field of a test": "hosts: {x.test: {tests: [{request: GET /, headers: {a: SECRET}, expect: SECRET}]}}",
    "a preset": "use: [SECRET]",
    "a parameter": "use: [{github: {SECRET: SECRET}}]",
    "a deny": "deny: [{id: SECRET, hosts: [SECRET]}]",
    "a profile": "profiles: {SECRET: {hosts: [SECRET]}}",
    "a network": "networks: [{cidr: SECRET}]",
    "a mode": "mode: SECRET",
    "something else": "SECRET",
}
"""Where somebody pastes a token who has not read how it is done."""


@case("S-38", "a token in the rules", naive="it tells nobody what is wrong", twin="test_a_mistake_is_quoted")
def test_a_token_in_the_rules(lab: Lab, proxy: Proxy) -> None:
    """It is not repeated: not to whoever reloads, and not in any log."""
    assert isinstance(proxy, Egress)
    value = lab.secrets.api.value.decode().replace("'", "''")
    text = proxy.rules.read_text(encoding="utf-8")
    said = []
    for what, pattern in PASTED.items():
        wrong = pattern.replace("SECRET", f"'{value}'").replace("VALUE", value)
        proxy.write(f"version: 1\n{wrong}\n" + ("" if "hosts" in wrong else "hosts: {x.test: {}}\n"))
        status, data = control_raw(proxy, "POST", "/reload")
        assert status == 409, (what, data)
        said += [(what, data), ("the status", control_raw(proxy, "GET", "/status")[1])]
    proxy.write(text)
    assert control(proxy, "POST", "/reload")[0] == 200
    must_not_show(lab, said)
    must_not_show(lab, lab.written(proxy))


def test_a_mistake_is_quoted(egress: Egress) -> None:
    """One that is no token: so a token would be seen."""
    text = egress.rules.read_text(encoding="utf-8")
    egress.write(text + "  new.test: {alow: []}\n")
    said = control_raw(egress, "POST", "/reload")[1]
    egress.write(text)
    assert control(egress, "POST", "/reload")[0] == 200
    assert b"`alow`" in said
    assert any("`alow`" in str(line["reason"]) for line in egress.records("reload.refused"))


def test_a_token_in_a_test_of_the_rules(lab: Lab, egress: Egress) -> None:
    """What is printed of a test that fails ends in the log of a build."""
    folder = lab.folder / "tested"
    value = lab.secrets.api.value.decode().replace("'", "''")
    tests = f"['GET /?key={value} -> deny']"
    put(folder / "hosts.yaml", f"version: 1\nhosts: {{x.test: {{allow: all, tests: {tests}}}}}\n")
    for words in (("test",), ("test", "--json"), ("check",)):
        outcome = run_in(egress.room, folder, *words)
        assert outcome.status in (0, 1)
        must_not_show(lab, [(" ".join(words), outcome.said.encode())])


# What a sandbox is given ------------------------------------------------------------------------


@case("S-41", "the key of an authority", Harm.TAKEN)
def test_the_key_of_an_authority(lab: Lab, proxy: Proxy) -> None:
    """In nothing that a sandbox is given or shown: certificate, bundle, stand-ins, leaves, pages."""
    given = [("the certificate", proxy.ca_pem)]
    if isinstance(proxy, Egress):
        bundle = run_in(proxy.room, proxy.folder, "ca", "export", "--bundle").out
        given += [("the bundle", bundle.encode())]
        given += [("stand-ins", control_raw(proxy, "GET", "/placeholders")[1])]
        given += [("a sandbox", control_raw(proxy, "POST", "/sandboxes", _json(name="given"))[1])]
        control(proxy, "DELETE", "/sandboxes/given")
        kept = (proxy.state / "ca/default.pem").read_bytes()
        stand_in_key = (proxy.state / "placeholders/default.key").read_bytes()
        assert b"PRIVATE KEY" in kept, "it is there, and looked for in the right form"
        keys = [("the key", _scalar(kept)), ("the key of the stand-ins", stand_in_key)]
        assert not [leak for _, data in given for leak in leaks(data, keys)]
    else:
        # What lies beside it, for everybody to read.
        beside = [path for path in proxy.folder.glob("*.key") if path.stat().st_mode & 0o004]
        given += [(path.name, path.read_bytes()) for path in beside]
    with proxy.tunnel(API) as line:
        given += [("a leaf", line.certificate or b"")]
    given += [("a page", proxy.say(request("x", "http://mitm.it/cert/pem")).raw)]
    for what, data in given:
        if b"PRIVATE" in data:
            raise Finding(Harm.TAKEN, f"the key is in {what}")


def _scalar(pem: bytes) -> bytes:
    """The number that a key is, as it would stand in any file."""
    key = serialization.load_pem_private_key(pem[pem.index(b"-----BEGIN PRIVATE") :], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.private_numbers().private_value.to_bytes(32)
