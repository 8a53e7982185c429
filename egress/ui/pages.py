"""Request handlers of the pages: query the index, render a template. No page changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from egress.errors import UsageError
from egress.review import (
    FILTER_FIELDS,
    Cursor,
    Filters,
    Index,
    IndexState,
    LogEntry,
    ResultPage,
    Stats,
    TrafficTotals,
)
from egress.review.drafting import observe
from egress.review.search import MAX_CURSOR_CHARS, EntryReader, LinePlace
from egress.review.spreadsheet import lines_as_csv
from egress.review.timeline import build_timeline
from egress.ui import charts as drawn
from egress.ui import drafts_and_replays, rulebook
from egress.ui.grouping import QUIET_EVENTS, FoldedRow, denial_groups, folded
from egress.ui.page_context import NotFoundError, Page, PageContext
from egress.ui.page_query import PageQuery, parse_query

PAGE_LINES: Final = 50
STOPPED: Final = ("deny", "cut")
MAX_GROUPED: Final = 1000
"""Lines with these verdicts that the groups above the list are made of: the newest."""
MOST_GROUPS: Final = 8
MAX_EXPORTED: Final = 10_000
"""Lines of an export; `egress log query` has no limit."""
MAX_DRAFTED: Final = 20_000
"""Requests that a page reads without being asked to: more would make a first visit wait."""
TOP_ROWS: Final = 12
MAX_RULES: Final = 10_000
MAX_NEAR_LINES: Final = 20
KINDS: Final = ("sandbox", "host", "secret", "rule")
CHOICES: Final = ("sandbox", "host", "rule", "code", "event", "method")
SHOWN_FILTERS: Final = (*KINDS, "verdict", "status", "method", "code", "event")
"""Filters that have a place of their own in the form; what else the schema marks comes behind them."""
MAX_ID_CHARS: Final = 1000


def _text(request: Request, name: str, most: int = MAX_ID_CHARS) -> str:
    return request.query_params.get(name, "")[:most]


# The list -------------------------------------------------------------------------------------


async def requests(site: PageContext, request: Request) -> Response:
    """Show the log, newest line first."""
    return await _list(site, request, "list.html")


async def lines(site: PageContext, request: Request) -> Response:
    """Return only the table body, for the live list; status 204 without new lines."""
    return await _list(site, request, "lines.html")


async def _list(site: PageContext, request: Request, template: str) -> Response:
    wanted = parse_query(request.query_params, site.now())
    place = _text(request, "before", MAX_CURSOR_CHARS)
    before = Cursor.of(place) if place else None

    is_whole = template == "list.html"
    # Groups are an overview of the newest: on an older page they would be about other lines.
    asked = wanted.filters.wanted.get("verdict")
    grouped = [name for name in STOPPED if asked in (None, name)] if is_whole and before is None else []

    def ask(index: Index) -> tuple[ResultPage | None, IndexState, Mapping[str, object], list[LogEntry]]:
        choices = {name: index.values(name, 200) for name in CHOICES} if is_whole else {}
        if wanted.problem:
            return None, index.state(), choices, []
        page = index.query(wanted.filters, PAGE_LINES, before)
        pages = [index.query(wanted.filters.but(verdict=name), MAX_GROUPED) for name in grouped]
        stopped = sorted((each for page in pages for each in page.entries), key=_newest_first)
        return page, page.state, choices, stopped[:MAX_GROUPED]

    page, state, choices, stopped = await site.pool.ask(ask)
    entries, cursor = (page.entries, page.cursor) if page else ((), None)
    # The live list sends the newest line that it shows, and gets no body until that changes.
    newest = f"{entries[0].file}:{entries[0].at}" if entries else "none"
    if template == "lines.html" and _text(request, "newest") == newest:
        return Response(status_code=204)
    return site.page(
        template,
        400 if wanted.problem else 200,
        here="requests",
        asked=wanted,
        **_rows(request, wanted, entries),
        groups=denial_groups(stopped),
        most_groups=MOST_GROUPS,
        is_cut=len(stopped) == MAX_GROUPED,
        cursor=cursor,
        state=state,
        choices=choices,
        more=[field.name for field in FILTER_FIELDS if field.name not in SHOWN_FILTERS],
        newest=newest,
        is_live=before is None and not wanted.problem and _text(request, "live") != "off",
    )


def _newest_first(entry: LogEntry) -> tuple[int, int]:
    return -entry.file, -entry.at


def _rows(request: Request, wanted: PageQuery, entries: Sequence[LogEntry]) -> dict[str, object]:
    """Fold the lines of a list, and leave events of the proxy out unless they are asked for."""
    events = _text(request, "events", 10)
    is_asked = events == "on" or "event" in wanted.texts
    shown = [entry for entry in entries if is_asked or entry.event not in QUIET_EVENTS]
    return {"rows": folded(shown), "left_out": len(entries) - len(shown), "events": events}


async def export(site: PageContext, request: Request) -> Response:
    """Send the lines of a view as a file, newest first: CSV, or JSON as it stands in the log."""
    wanted = parse_query(request.query_params, site.now())
    if wanted.problem:
        raise UsageError(wanted.problem)
    form = _text(request, "format", 10)
    if form not in EXPORTS:
        raise UsageError("no such format", f"formats: {', '.join(EXPORTS)}")
    write, kind, ending = EXPORTS[form]
    page = await site.pool.ask(lambda index: index.query(wanted.filters, MAX_EXPORTED))
    body = await site.pool.work(lambda: write(page.entries))
    # A file that ends early must say so where it is kept: in its name.
    cut = "-newest" if page.cursor else ""
    named = f'attachment; filename="egress-log{cut}.{ending}"'
    return Response(body, media_type=kind, headers={"content-disposition": named})


def _as_json(entries: Sequence[LogEntry]) -> str:
    return "".join(entry.raw.decode("utf-8", "replace") + "\n" for entry in entries)


EXPORTS: Final[Mapping[str, tuple[Callable[[Sequence[LogEntry]], str], str, str]]] = {
    "csv": (lines_as_csv, "text/csv; charset=utf-8", "csv"),
    "json": (_as_json, "application/x-ndjson", "jsonl"),
}
"""Formats of an export: its writer, its media type and the ending of its file."""


# Numbers --------------------------------------------------------------------------------------


async def strip(site: PageContext, request: Request) -> Response:
    """Draw the small chart above the list."""
    wanted = parse_query(request.query_params, site.now())
    if wanted.problem or wanted.filters.grep:
        return Response(status_code=204)
    chart, _ = await site.pool.ask(lambda index: _charts(index, wanted.filters, is_short=True))
    return site.page("strip.html", asked=wanted, charts=chart)


async def charts(site: PageContext, request: Request) -> Response:
    """Show charts over time, and the top sandboxes, hosts, secrets, rules and reasons."""
    wanted = parse_query(request.query_params, site.now())
    if wanted.problem:
        raise UsageError(wanted.problem)
    filters = _unsearched(wanted.filters)
    charts, total = await site.pool.ask(lambda index: _charts(index, filters))
    tables = await site.pool.ask(lambda index: index.tables(filters, (*KINDS, "code"), TOP_ROWS))
    return site.page("charts.html", here="charts", asked=wanted, charts=charts, total=total, tables=tables)


def _unsearched(filters: Filters) -> Filters:
    """Drop the text filter: totals by text would need every line. The page says so."""
    return filters.but(grep="")


def _charts(
    index: Index, filters: Filters, *, is_short: bool = False
) -> tuple[tuple[drawn.Chart, ...], TrafficTotals]:
    total = index.total(filters)
    found = drawn.charts(index.over_time(filters), total)
    return found[: 1 if is_short else None], total


# A sandbox, host, secret or rule --------------------------------------------------------------


def _subject_page(kind: str) -> Page:
    async def page(site: PageContext, request: Request) -> Response:
        name = _text(request, "name", 500)
        if not name:
            raise UsageError(f"the address lacks the name of a {kind}", "follow a link from another page")
        rules = await site.pool.work(lambda: rulebook.read(site.rules, site.seconds))
        rows = rulebook.rows(rules, {}) if kind == "rule" else []
        rule = next((row for row in rows if row.name == name), None)
        about = {kind: name}
        if rule is not None and rule.unread:
            # The log records a tunnel without its rule, so this page looks for the hosts of the entry.
            about = {"event": "tunnel", "host": rule.unread}
        wanted = parse_query({**request.query_params, **about}, site.now())
        if wanted.problem:
            raise UsageError(wanted.problem)
        others = tuple(other for other in (*KINDS, "code") if other != kind)
        filters = _unsearched(wanted.filters)

        def ask(
            index: Index,
        ) -> tuple[tuple[drawn.Chart, ...], TrafficTotals, dict[str, Stats], tuple[LogEntry, ...]]:
            charts, total = _charts(index, filters)
            recent = index.query(wanted.filters, TOP_ROWS).entries
            return charts, total, index.tables(filters, others, TOP_ROWS), recent

        charts, total, tables, entries = await site.pool.ask(ask)
        return site.page(
            "thing.html",
            200 if entries or rule else 404,
            here=kind,
            kind=kind,
            name=name,
            asked=wanted,
            charts=charts,
            total=total,
            tables=tables,
            rows=folded(entries),
            rule=rule,
            spec=rules.policy.secrets.get(name) if rules.policy and kind == "secret" else None,
            rules=rules,
            around=rulebook.sources(rules, rule.place, rule.name) if rule else [],
        )

    return page


async def detail(site: PageContext, request: Request) -> Response:
    """Show a request with its stages, or a line that belongs to no request."""
    name, at = _text(request, "id"), _text(request, "at", 40)

    # A line without an id, such as `started`, is named by file and offset.
    def ask(index: Index) -> tuple[list[LogEntry], list[LogEntry]]:
        if at:
            entry = _at(site, LinePlace.of(at))
            return ([entry] if entry else []), []
        found = _named(index, name)
        connection = found[0].text("connection") if found else ""
        near = index.connection(connection, MAX_NEAR_LINES) if connection else []
        shown = {(entry.file, entry.at) for entry in found}
        return found, [entry for entry in near if (entry.file, entry.at) not in shown]

    if not name and not at:
        raise UsageError("the address lacks the id of a request", "follow a link from the list")
    found, near = await site.pool.ask(ask)
    if not found:
        raise NotFoundError("no log line has this id", "old log files may have been deleted")
    rules = await site.pool.work(lambda: rulebook.read(site.rules, site.seconds))
    told = [(entry, build_timeline(entry), _decided_by(rules, entry)) for entry in found]
    return site.page(
        "request.html",
        here="requests",
        told=told,
        near=[FoldedRow((entry,)) for entry in near],
        rules=rules,
        name=name,
        reasons={name: said for entry in found if (said := _reasons(rules, name := entry.text("rule")))},
        can_suggest=_denied(found),
    )


def _decided_by(rules: rulebook.RuleBook, entry: LogEntry) -> list[rulebook.Excerpt]:
    return rulebook.sources(rules, entry.text("place"), entry.text("rule"))


def _reasons(rules: rulebook.RuleBook, rule: str) -> list[str]:
    """Return the reason that a rule has, as a list of none or one."""
    said = rulebook.reason_of(rules, rule)
    return [said] if said else []


def _named(index: Index, name: str) -> list[LogEntry]:
    """Return the first lines of a request, or of a connection. A connection may last for days."""
    return index.find(name, MAX_NEAR_LINES) or index.connection(name, MAX_NEAR_LINES)


def _at(site: PageContext, place: LinePlace) -> LogEntry | None:
    with EntryReader(site.pool.directory) as reader:
        return reader.entry(place.file, place.at)


def _denied(found: list[LogEntry]) -> str:
    """Return the id to request a suggestion with; empty if nothing was denied."""
    for entry in found:
        observed = observe(entry.fields)
        if observed is not None and not observed.passed:
            return entry.request or entry.text("connection")
    return ""


# Rules ----------------------------------------------------------------------------------------


async def rules(site: PageContext, request: Request) -> Response:
    """Show the current rules and their hits."""
    wanted = parse_query(request.query_params, site.now())
    if wanted.problem:
        raise UsageError(wanted.problem)
    found = wanted.filters
    filters = Filters(since=found.since, until=found.until, sandbox=found.wanted.get("sandbox", ""))
    # Tunnels carry no rule in the log, so they are counted by host.
    tunnels_only = filters.but(event="tunnel")

    def ask(index: Index) -> tuple[dict[str, TrafficTotals], dict[str, TrafficTotals]]:
        hits = index.stats(filters, "rule", MAX_RULES).rows
        return dict(hits), dict(index.stats(tunnels_only, "host", MAX_RULES).rows)

    hits, tunnels = await site.pool.ask(ask)
    current = await site.pool.work(lambda: rulebook.read(site.rules, site.seconds))
    find, sort = _text(request, "find", 200), _text(request, "sort", 10)
    groups = rulebook.groups(rulebook.rows(current, hits, tunnels), find, by_hits=sort == "hits")
    return site.page(
        "rules.html", here="rules", asked=wanted, rules=current, groups=groups, find=find, sort=sort
    )


async def draft(site: PageContext, request: Request) -> Response:
    """Draft a rule file from traffic."""
    # The address of a replay in 0.2, which bookmarks may have.
    if _text(request, "what", 10) == "replay":
        return await replay(site, request)
    wanted, page = await _traffic(site, request)
    if wanted is None:
        return site.page("draft.html", 200, here="draft", **page)
    now = site.seconds
    current = await site.pool.work(lambda: rulebook.read(site.rules, now))
    made, missing = await site.pool.work(
        lambda: drafts_and_replays.draft_rules(wanted, current, now), drafts_and_replays.DRAFT_TIMEOUT * 2
    )
    return site.page("draft.html", 200, here="draft", **page | {"draft": made, "missing": missing})


async def replay(site: PageContext, request: Request) -> Response:
    """Decide the traffic again with the current rules."""
    wanted, page = await _traffic(site, request)
    if wanted is None:
        return site.page("draft.html", 200, here="replay", **page)
    now = site.seconds
    current = await site.pool.work(lambda: rulebook.read(site.rules, now))
    policy = current.policy
    if policy is None:
        raise UsageError(current.problem, "name the rule files with `egress ui --rules`")
    made, missing = await site.pool.work(
        lambda: drafts_and_replays.replay_traffic(wanted, policy, now), drafts_and_replays.DRAFT_TIMEOUT * 2
    )
    return site.page("draft.html", 200, here="replay", **page | {"replay": made, "missing": missing})


async def _traffic(
    site: PageContext, request: Request
) -> tuple[drafts_and_replays.TrafficSelection | None, dict[str, object]]:
    """Return the traffic that a page is about, None where it is too much for a first visit; and its form."""
    since, profile = _text(request, "since", 40) or "1d", _text(request, "profile", 200)
    asked = parse_query({"since": since}, site.now())
    if asked.problem:
        raise UsageError(asked.problem)
    total = await site.pool.ask(lambda index: index.total(asked.filters))
    page: dict[str, object] = {"since": since, "profile": profile, "requests": total.requests}
    page |= {"draft": None, "replay": None, "missing": ()}
    # Reading a large log is slow: a page does it only for whoever presses the button.
    if total.requests > MAX_DRAFTED and not _text(request, "what", 10):
        return None, page
    return drafts_and_replays.TrafficSelection(site.pool.directory, site.pool.place, since, profile), page


async def suggestion(site: PageContext, request: Request) -> Response:
    """Suggest the YAML that would allow a denied request, with its risks."""
    name = _text(request, "id")
    found = await site.pool.ask(lambda index: _named(index, name)) if name else []
    # An id can also have lines of other events; a suggestion needs a request, a tunnel or a refusal.
    entry = next((entry for entry in found if observe(entry.fields) is not None), None)
    if entry is None:
        raise NotFoundError(
            "the log has no request with this id", "the response to the sandbox contains the id"
        )
    current = await site.pool.work(lambda: rulebook.read(site.rules, site.seconds))
    answer = await site.pool.work(lambda: drafts_and_replays.suggest_rule(entry, current, site.seconds))
    stages = {stage.name: stage.text for stage in build_timeline(entry)}
    return site.page(
        "suggest.html",
        here="requests",
        entry=entry,
        asked_for=stages.get("asked", ""),
        answer=answer,
        rules=current,
        reasons=_reasons(current, entry.text("rule")),
        around=_decided_by(current, entry),
    )


async def chain(site: PageContext, request: Request) -> Response:
    """Show the result of the last verification; for htmx only the badge."""
    if request.headers.get("hx-request"):
        return site.page("chain.html")
    state = await site.pool.ask(lambda index: index.state())
    return site.page("proof.html", here="chain", state=state)


PAGES: Final[Mapping[str, Page]] = {
    "/": requests,
    "/lines": lines,
    "/export": export,
    "/strip": strip,
    "/charts": charts,
    "/request": detail,
    **{f"/{kind}": _subject_page(kind) for kind in KINDS},
    "/rules": rules,
    "/draft": draft,
    "/replay": replay,
    "/suggest": suggestion,
    "/chain": chain,
}
