"""Why namespaces are refused, and the cure."""

from __future__ import annotations

import errno
import subprocess

import pytest

from egress.runtime.errors import EngineError, UnsupportedError
from egress.runtime.namespace import kernel_support


@pytest.mark.parametrize(
    ("number", "settings", "cure"),
    [
        (errno.ENOSPC, {"user.max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces=15000"),
        (errno.ENOSPC, {"user.max_user_namespaces": "3"}, "sysctl -w user.max_user_namespaces=15000"),
        (errno.EPERM, {"kernel.unprivileged_userns_clone": "0"}, "kernel.unprivileged_userns_clone=1"),
        (errno.EACCES, {"kernel.apparmor_restrict_unprivileged_userns": "1"}, "AppArmor profile"),
        (errno.EPERM, {"user.max_user_namespaces": "9"}, "in a container"),
        (0, {}, "use the docker runtime"),
    ],
)
def test_a_refusal_has_a_cure(number: int, settings: dict[str, str], cure: str) -> None:
    assert cure in kernel_support.refusal_error(number, settings).hint


@pytest.mark.parametrize(
    ("system", "release", "machine", "said"),
    [
        ("Darwin", "25.1.0", "arm64", "need Linux"),
        ("Linux", "6.1.0", "riscv64", "no filter"),
        ("Linux", "5.10.0-30-amd64", "x86_64", "too old"),
        ("Linux", "4.18", "aarch64", "too old"),
    ],
)
def test_what_cannot_be_is_told(system: str, release: str, machine: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        kernel_support.refuse_old(system, release, machine)


@pytest.mark.parametrize("release", ["5.14.0", "5.15-generic", "6.18.44", "10.0", "strange"])
def test_what_can_be_is_not(release: str) -> None:
    kernel_support.refuse_old("Linux", release, "x86_64")


def test_the_settings_are_read_where_there_are_any() -> None:
    assert kernel_support.kernel_settings().keys() <= kernel_support.SETTING_FILES.keys()


def test_what_runs_inside_needs_the_standard_library_alone() -> None:
    """It starts at once: nothing else is loaded, whatever is installed."""
    code = (
        "from egress.runtime.namespace.inside import launch\n"
        "import sys\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))\n"
    )
    done = subprocess.run(
        kernel_support.python_command(code), capture_output=True, text=True, check=True, env={}
    )
    assert done.stdout in ("['__main__', 'egress']\n", "['egress']\n")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("from egress.runtime.namespace.inside import nothing_there\n", "nothing_there"),
        ("raise SystemExit(7)\n", "status 7"),
        ("import time; time.sleep(60)\n", "no answer within 0.5s"),
    ],
)
def test_a_probe_that_cannot_tell_is_an_error_and_no_refusal(
    monkeypatch: pytest.MonkeyPatch, code: str, cause: str
) -> None:
    """Tests are left out for a refusal, and a broken installation must not look like one."""
    monkeypatch.setattr(kernel_support, "refuse_old", lambda *_: None)
    monkeypatch.setattr(kernel_support, "_PROBE_CODE", code)
    monkeypatch.setattr(kernel_support, "_PROBE_TIMEOUT", 0.5 if "sleep" in code else 30.0)
    with pytest.raises(EngineError, match="probe of namespaces failed") as raised:
        kernel_support.check()
    assert cause in raised.value.message
    assert not isinstance(raised.value, UnsupportedError)


def test_an_interpreter_that_is_gone_is_an_error_and_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_support, "refuse_old", lambda *_: None)
    monkeypatch.setattr(kernel_support, "python_command", lambda _code: ["/nonexistent/python"])
    with pytest.raises(EngineError, match="no such file"):
        kernel_support.check()


@pytest.mark.parametrize("code", ["print(1)\n", "import os; os.kill(os.getpid(), 31)\n"])
def test_a_kernel_that_refuses_or_kills_the_probe_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(kernel_support, "refuse_old", lambda *_: None)
    monkeypatch.setattr(kernel_support, "_PROBE_CODE", code)
    with pytest.raises(UnsupportedError):
        kernel_support.check()


@pytest.mark.parametrize(
    ("output", "line"),
    [(b"", ""), (b"Traceback\n  x\nImportError: no\n\n", "ImportError: no"), (b"\x1b[31m\xff", "[31m\ufffd")],
)
def test_a_cause_is_one_printable_line(output: bytes, line: str) -> None:
    assert kernel_support.last_line(output) == line
    assert len(kernel_support.last_line(b"x" * 9999)) == 300
