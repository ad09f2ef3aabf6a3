"""Each page of memory in the browser: its first byte, processor time and size, as `consolidator ui` serves it."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from html import unescape
from urllib.parse import urlsplit

import httpx2

from benchmarks.harness.page_data import PageData, fill
from benchmarks.harness.processor_time import list_backends, list_children, processor_times, spent_since
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock

TITLE = "the pages in the browser"
DATA = {
    "tiny": PageData(240, 60, 60),
    "small": PageData(20_000, 2_000, 2_000),
    "full": PageData(1_000_000, 100_000, 20_000),
}
ROUNDS = {"tiny": 1, "small": 30, "full": 40}
MAX_MILLISECONDS, MAX_KILOBYTES = 150, 200
MAX_PROCESSOR = 100  # milliseconds of the service and the database together, in the median
PATIENCE = 60.0  # seconds
PAGES = {
    "Today": "/today",
    "Today, a month": "/today?days=30",
    "Facts": "/facts",
    "Facts of a project": "/facts?project=/home/ada/work/project-3",
    "Facts of a person": "/facts?peer=person-7",
    "Facts by kind and trust": "/facts?kind=decision&trust=user",
    "Facts by common words": "/facts?query=nightly+build",
    "Facts by a rare word": "/facts?query=tool77",
    "Facts by a part of a word": "/facts?query=ranche",
    "Facts by words that none has": "/facts?query=zebra",
    "Facts as of a day": "/facts?as_of={month_ago}",
    "Facts true on a day": "/facts?valid_at={month_ago}",
    "Facts, also superseded": "/facts?include_superseded=1",
    "Facts to review": "/facts?flagged=1",
    "a fact": "/memory/fact_11",
    "Projects": "/projects",
    "a project": "/projects?project=/home/ada/work/project-3",
    "Next session": "/brief?project=/home/ada/work/project-3",
    "Search": "/search?query=nightly+build",
    "Search while typing": "/search?part=1&query=nightly",
    "a session as a picture": "/sessions/long/picture",
    "Rules": "/rules",
    "Rules of a project": "/rules?project=/home/ada/work/project-3",
    "Procedures": "/procedures",
    "all Procedures": "/procedures?include_unworthy=1",
    "Procedures by words": "/procedures?query=git",
    "Solutions": "/solutions",
    "all Solutions": "/solutions?include_unsolved=1",
    "Solutions by words": "/solutions?query=upstream",
    "Sessions": "/sessions",
    "Sessions of a project": "/sessions?project=/home/ada/work/project-3",
    "Sessions that wait": "/sessions?status=waiting",
    "Sessions that run": "/sessions?status=running",
    "Sessions that failed": "/sessions?status=failed",
    "Sessions by words": "/sessions?query=fix+the+failing+test",
    "a session": "/sessions/made-0000001",
    "a long session": "/sessions/long",
    "the end of a long session": "/sessions/long?end=1",
    "a replay": "/sessions/made-0000001?at=40",
    "a replay of a long session": "/sessions/long?at=150",
    "Compare": "/compare?left=made-0000001&right=made-0000002",
    "Compare long sessions": "/compare?left=long&right=long-too",
    "Nights": "/nights",
    "Recall": "/recall?query=which+tool+does+project+number+77+use+for+its+nightly+build",
    "Recall of an error": "/recall?query=fatal:+The+current+branch+has+no+upstream+branch",
    "Attention": "/attention",
    "System": "/system",
}
FIRST_ENTRIES = {
    "a procedure": "/procedures",
    "a solution": "/solutions",
    "a night": "/nights",
}  # what each list begins with
NEXT_PAGES = ("Facts", "Facts by common words", "Procedures", "Solutions", "Sessions", "Nights", "Attention")


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Ask for every page in turn, many times; a page's first byte is when its headers are there."""
    report = Report("ui", TITLE, scale)
    data, until = DATA[scale], datetime.now(UTC)
    clock = FrozenClock(until)
    async with (
        server.open_kept_database(
            f"ui_{scale}", clock, lambda database: fill(database, clock, server.default_settings(), data, until=until)
        ) as database,
        serve_page(server, database.dsn) as client,
    ):
        addresses = await list_addresses(client, until)
        times: dict[str, list[float]] = {name: [] for name in addresses}
        processor: dict[str, list[tuple[float, float]]] = {name: [] for name in addresses}
        sizes: dict[str, int] = {}
        async with database.connection() as conn:
            for turn in range(ROUNDS[scale] + 1):
                for name, address in addresses.items():
                    service, backends = processor_times(list_children()), processor_times(await list_backends(conn))
                    seconds, sizes[name] = await ask(client, address)
                    if turn:  # the first one fills caches
                        times[name].append(seconds * 1000)
                        processor[name].append((spent_since(service), spent_since(backends)))
    for name, milliseconds in times.items():
        milliseconds.sort()
        last = milliseconds[min(round(0.95 * len(milliseconds)), len(milliseconds) - 1)]
        report.add(f"{name}, p95", last, "ms", at_most=MAX_MILLISECONDS)
        report.details.setdefault("medians", {})[name] = round(statistics.median(milliseconds), 1)
    _add_processor_times(report, processor)
    largest = max(sizes, key=lambda name: sizes[name])
    report.add("the largest page", sizes[largest] / 1000, "kB", at_most=MAX_KILOBYTES)
    report.details["bytes"] = sizes
    report.notes.append(f"the largest page is {largest}'s")
    slowest = max(report.details["medians"], key=lambda name: report.details["medians"][name])
    medians = sorted(report.details["medians"].values())
    report.notes.append(
        f"medians of the first bytes: {medians[0]:.0f} to {medians[-1]:.0f} ms, the largest is {slowest}'s"
    )
    return report


def _add_processor_times(report: Report, spent: dict[str, list[tuple[float, float]]]) -> None:
    """Add what pages took of the processor: the medians, of the service and of the database's backends."""
    medians = {
        name: [round(statistics.median(values), 1) for values in zip(*pairs, strict=True)]
        for name, pairs in spent.items()
    }
    report.details["processor_ms"] = medians  # [service, database] by page
    if not any(map(any, medians.values())):
        return
    totals = {name: sum(pair) for name, pair in medians.items()}
    most = max(totals, key=lambda name: totals[name])
    report.add("processor time, the most of a page", totals[most], "ms", at_most=MAX_PROCESSOR)
    report.notes.append(f"the most processor time is {most}'s")


async def ask(client: httpx2.AsyncClient, address: str) -> tuple[float, int]:
    """Return the seconds until a page's first byte, and the bytes of the page as they are shown."""
    started = time.perf_counter()
    async with client.stream("GET", address) as response:
        seconds = time.perf_counter() - started
        body = await response.aread()
    if response.status_code != 200:
        raise RuntimeError(f"{address} answered {response.status_code}")
    return seconds, len(body)


async def list_addresses(client: httpx2.AsyncClient, until: datetime) -> dict[str, str]:
    """Return the addresses of the pages by their names, those that lists lead to among them."""
    month_ago = until.replace(day=1).date().isoformat()
    addresses = {name: "/ui" + path.format(month_ago=month_ago) for name, path in PAGES.items()}
    for name, path in FIRST_ENTRIES.items():
        text = (await client.get("/ui" + path)).text
        entry = re.search(r'class="entry"><a href="([^"]+)"', text)
        if entry:
            addresses[name] = unescape(entry[1])
    for name in NEXT_PAGES:
        path = urlsplit(addresses[name]).path
        text = (await client.get(addresses[name])).text
        link = re.search(r'href="([^"]+)" rel="next"', text)
        if link:
            addresses[f"{name}, the next page"] = path + unescape(link[1])
    return addresses


@asynccontextmanager
async def serve_page(server: BenchmarkServer, dsn: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Run `consolidator ui` in a process of its own, and yield a client that is logged in by its link."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "consolidator", "ui", "--no-browser", "--json"),
        env=server.environment(dsn),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        printed = await asyncio.wait_for(process.stdout.readuntil(b"}"), PATIENCE)
        link = urlsplit(json.loads(printed)["url"])
        async with httpx2.AsyncClient(base_url=f"{link.scheme}://{link.netloc}", timeout=PATIENCE) as client:
            (await client.get(f"{link.path}?{link.query}")).raise_for_status()
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
