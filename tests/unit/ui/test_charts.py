"""Where each bar stands."""

from __future__ import annotations

from egress.review import TrafficTotals
from egress.ui.charts import HEIGHT, WIDTH, charts

MINUTE = 60_000_000
START = 1_772_357_400_000_000
BUSY = TrafficTotals(requests=10, denied=4, bytes_up=100, bytes_down=300, p50_us=1000, p95_us=4000)
STEPS = ((START, BUSY), (START + MINUTE, TrafficTotals()), (START + 2 * MINUTE, TrafficTotals(requests=1)))


def test_there_is_a_chart_of_each_kind() -> None:
    assert [chart.name for chart in charts(STEPS, BUSY)] == ["Requests", "Stopped", "Bytes", "Latency"]
    assert charts((), TrafficTotals()) == ()


def test_bars_stay_within_the_chart() -> None:
    for chart in charts(STEPS, BUSY):
        for bar in (bar for column in chart.columns for bar in column.bars):
            assert 0 <= bar.x <= bar.x + bar.width <= WIDTH
            assert 0 <= bar.y <= bar.y + bar.height <= HEIGHT + 0.01


def test_heights_are_as_the_numbers() -> None:
    requests = charts(STEPS, BUSY)[0]
    allowed, denied = requests.columns[0].bars
    assert (allowed.part, allowed.height, allowed.y) == ("allow", 60, 40)
    assert (denied.part, denied.height, denied.y) == ("deny", 40, 0)
    assert requests.columns[1].bars == ()
    assert requests.top == "10"


def test_what_is_there_is_seen_however_little_it_is() -> None:
    one = charts(
        ((START, TrafficTotals(requests=1_000_000)), (START + MINUTE, TrafficTotals(requests=1))), BUSY
    )[0]
    assert one.columns[1].bars[0].height == 1.5


def test_a_column_leads_to_its_lines() -> None:
    column = charts(STEPS, BUSY)[0].columns[0]
    assert (column.since, column.until) == ("2026-03-01T09:30:00Z", "2026-03-01T09:31:00Z")
    assert column.title == "2026-03-01 09:30 UTC: 6 allowed, 4 denied, 0 cut"


def test_latency_says_both_as_they_are() -> None:
    assert charts(STEPS, BUSY)[3].columns[0].title.endswith("1 ms p50, 4 ms p95")
