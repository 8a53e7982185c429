"""The lines about sandboxes that come and go are part of the schema, each under the name it is read by."""

from __future__ import annotations

from egress.audit import lines_about_sandboxes
from egress.audit.fields import LogLine
from egress.audit.lines import workload_fields
from egress.audit.schema import LINE_SECTIONS, ExchangeLine, RefusalLine, TunnelLine
from egress.types import Workload


def test_every_line_about_sandboxes_is_listed_in_the_schema() -> None:
    kinds = {
        each
        for each in vars(lines_about_sandboxes).values()
        if isinstance(each, type) and issubclass(each, LogLine)
    }
    assert kinds - {LogLine} <= set(LINE_SECTIONS["What happens to the proxy"])


def test_a_pod_has_the_same_fields_in_every_line_that_names_one() -> None:
    whole = workload_fields(Workload("agents", "p", "p-uid", "c", "c-uid", "egress-0"))
    for kind in (
        *(ExchangeLine, TunnelLine, RefusalLine),
        *(lines_about_sandboxes.SandboxAdded, lines_about_sandboxes.SandboxRemoved),
    ):
        assert whole.keys() <= set(kind.__struct_fields__)
    assert workload_fields(Workload("agents", replica="egress-0")) == {
        "namespace": "agents",
        "replica": "egress-0",
    }
