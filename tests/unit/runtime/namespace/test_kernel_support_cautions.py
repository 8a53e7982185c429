"""What the operator is told."""

from __future__ import annotations

from egress.runtime.namespace.kernel_support import KERNEL_CAUTION, list_cautions


def test_the_kernel_is_always_told_of() -> None:
    assert list_cautions(frozenset({"memory", "cpu", "pids"}), has_rights=True, is_root=True) == (
        KERNEL_CAUTION,
    )


def test_what_is_not_bounded_is_named() -> None:
    (_, bounds) = list_cautions(frozenset({"memory"}), has_rights=True, is_root=True)
    assert "CPU time" in bounds
    assert "memory" not in bounds


def test_who_shares_a_user_with_its_sandboxes_is_told() -> None:
    everything = frozenset({"memory", "cpu"})
    assert "your own user" in list_cautions(everything, has_rights=False, is_root=False)[-1]
    assert "root without capabilities" in list_cautions(everything, has_rights=False, is_root=True)[-1]


def test_each_is_one_line() -> None:
    assert not any("\n" in each for each in list_cautions(frozenset(), has_rights=False, is_root=True))
