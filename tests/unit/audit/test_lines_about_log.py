"""The lines about the log itself are part of the schema, each under the name it is read by."""

from __future__ import annotations

from egress.audit import lines_about_log
from egress.audit.fields import LogLine
from egress.audit.schema import LINE_SECTIONS


def test_every_line_about_the_log_is_listed_in_the_schema() -> None:
    kinds = {
        each
        for each in vars(lines_about_log).values()
        if isinstance(each, type) and issubclass(each, LogLine)
    }
    assert kinds - {LogLine} == set(LINE_SECTIONS["What happens to the log"])


def test_a_gap_keeps_the_mac_before_it_as_its_last_field() -> None:
    assert lines_about_log.GapLine.__struct_fields__[-1] == "previous"
