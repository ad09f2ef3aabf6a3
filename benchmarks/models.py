"""What memory asks of a model: calls and tokens for 1,000 events, ours and mem0's, of the same conversations.

    python -m benchmarks.models [FOLDER] [--mem0 PYTHON] [--scale small]

One stand-in server answers both over HTTP, each in the format it asks for, with the same facts. mem0 is run by a Python
that has it (`--mem0`, or CONSOLIDATOR_TEST_MEM0), with its local vector store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.quality.dialogues import dialogue
from benchmarks.report import Report
from benchmarks.server import Server, open_server
from benchmarks.standin import Asked, embedded_tokens
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.demo import logs
from consolidator.demo.script import samples
from consolidator.formats import format_named, locomo
from consolidator.jobs.importing.importer import import_sources
from consolidator.jobs.importing.source_files import ImportSource
from consolidator.jobs.nightly import JobRunner
from consolidator.llm.tokens import is_exact
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events, sessions
from consolidator.store.queries import rows
from consolidator.testing import ModelServer
from consolidator.testing.model_server import DIMENSIONS

TITLE = "what a model is asked for 1,000 events, beside mem0"
DIALOGUES = {"tiny": (1, 3), "small": (3, 20), "full": (10, 30)}  # how many, and the sessions of each
DAYS = {"tiny": 4, "small": 60, "full": 60}  # of the demo
CALLS, TOKENS = 0.1, 0.25  # of mem0's
MEM0 = "CONSOLIDATOR_TEST_MEM0"
MODEL, VECTORS = "gpt-5-mini", "text-embedding-3-small"
_LONGEST_RUN = 3600  # seconds that mem0 may take
_NO_NAME = re.compile(r"\W+")
Messages = list[dict[str, str]]


@dataclass(slots=True)
class Talk:
    """A session as mem0 gets it: whose it is, and what is added at once."""

    user: str
    adds: list[Messages]


@dataclass(slots=True)
class Corpus:
    """Conversations, and what each side asked for them."""

    name: str
    sources: list[ImportSource]
    events: int = 0
    nights: int = 0
    sessions: int = 0
    ours: Asked = field(default_factory=Asked)
    ours_embedded: list[list[str]] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    theirs: Asked | None = None
    theirs_embedded: list[list[str]] = field(default_factory=list)
    version: str = ""


async def measure(server: Server, scale: str, *, folder: Path | None = None, mem0: str | None = None) -> Report:
    """Measure both on the demo's sessions, on dialogues that are made up, and on a folder where one is given."""
    report = Report("models", TITLE, scale)
    python = mem0 or os.environ.get(MEM0)
    with tempfile.TemporaryDirectory(prefix="consolidator-bench-") as made:
        found = await asyncio.to_thread(_corpora, Path(made), scale, folder)
        for corpus in found:
            await _asked_by_us(server, corpus)
            if python is not None:
                await _asked_by_mem0(python, corpus, Path(made) / f"mem0-{corpus.name.replace(' ', '-')}")
            _told(report, corpus)
    if len(found) > 1:
        _told(report, _together(found), targets=True)
    if python is None:
        report.notes.append(f"mem0 left out: no Python that has mem0ai is named (--mem0 or {MEM0})")
    else:
        report.notes.append(
            f"mem0ai {found[0].version}: add() for each turn, a user's message with what is answered to it, as its "
            "documentation shows; a tool's results are not given to it"
        )
    report.notes.append("ours: a night for each day with sessions; rules, too, but they ask no model")
    if not is_exact():
        report.notes.append("tokens are estimated on both sides: tiktoken's vocabulary is not on this machine")
    return report


def _corpora(made: Path, scale: str, folder: Path | None) -> list[Corpus]:
    """Write down what there is to read."""
    told = samples()
    written = made / "demo"
    logs.write(told, written, datetime(2026, 1, 5, tzinfo=UTC), timedelta(days=DAYS[scale]))
    found = [Corpus("demo", [_source(one) for one in logs.sources(written)])]
    count, length = DIALOGUES[scale]
    talks = made / "dialogues"
    talks.mkdir()
    for seed in range(count):
        (talks / f"made-{seed}.json").write_text(json.dumps(dialogue(seed, sessions=length)))
    found.append(Corpus("dialogues", [ImportSource(talks, locomo)]))
    if folder is not None:
        found.append(Corpus(folder.name, [ImportSource(folder, None)]))
    return found


def _source(told: str) -> ImportSource:
    name, _, path = told.partition(":")
    return ImportSource(Path(path), format_named(name))


async def _asked_by_us(server: Server, corpus: Corpus) -> None:
    """Import conversations and have nights read them, day by day."""
    clock = FrozenClock(datetime.now(UTC))
    async with server.database(clock) as database, ModelServer(answers=corpus.ours) as model:
        await import_sources(database, corpus.sources, lenient=True)
        clock.advance(timedelta(days=2))
        days = await _days(database, corpus)
        chosen = {"openai_base_url": model.url, "model": MODEL, "embed_model": VECTORS}
        nights = JobRunner(database, server.settings().model_copy(update=chosen))
        for _, names in sorted(days.items()):
            done = await nights.run_now("consolidation", only=names)
            assert not done["model"]["failures"], done["model"]
            clock.advance(timedelta(minutes=1))
        corpus.nights = len(days)
        corpus.ours_embedded = model.embedded


async def _days(database: Database, corpus: Corpus) -> dict[str, list[str]]:
    """Return the sessions of each day, and note what was said in them."""
    days: defaultdict[str, list[str]] = defaultdict(list)
    async with database.connection() as conn:
        names = [one["id"] for one in await rows(conn, "select id from session order by created_at, id")]
        for session in await sessions.get_each(conn, names):
            found = await events.read(conn, session.id, bounds=session.ingest_bounds)
            if not found:
                continue
            days[max(one.occurred_at for one in found).date().isoformat()].append(session.id)
            corpus.events += len(found)
            corpus.sessions += 1
            if session.kind != "sub-agent":
                owner = session.peer or session.project or session.agent
                corpus.talks.append(Talk(_NO_NAME.sub("_", owner), turns(found)))
    return days


def turns(found: Sequence[Event]) -> list[Messages]:
    """Return what is given to mem0 at once: a user's message and the answers to it; of two people, one of each."""
    people = [one for one in found if one.type is EventType.USER_MESSAGE and one.data.get("speaker")]
    if people:
        first = people[0].data["speaker"]
        told = [
            _message(
                "user" if one.data["speaker"] == first else "assistant", f"{one.data['speaker']}: {one.data['text']}"
            )
            for one in people
        ]
        return [told[start : start + 2] for start in range(0, len(told), 2)]
    added: list[Messages] = []
    for event in found:
        text = str(event.data.get("text") or "").strip()
        if not text:
            continue
        if event.type is EventType.USER_MESSAGE and event.data.get("origin", "user") == "user":
            added.append([_message("user", text)])
        elif event.type is EventType.ASSISTANT_RESPONSE and added:
            added[-1].append(_message("assistant", text))
    return added


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


async def _asked_by_mem0(python: str, corpus: Corpus, home: Path) -> None:
    """Have mem0 add the same conversations, with a home of its own, and nothing sent to anybody but the stand-in."""
    corpus.theirs = Asked()
    await asyncio.to_thread(home.mkdir)
    async with ModelServer(answers=corpus.theirs) as model:
        told = {
            "url": model.url,
            "folder": str(home),
            "dimensions": DIMENSIONS,
            "model": MODEL,
            "embed_model": VECTORS,
            "conversations": [{"user": one.user, "adds": one.adds} for one in corpus.talks],
        }
        known = {name: os.environ[name] for name in ("PATH", "LANG", "TIKTOKEN_CACHE_DIR") if name in os.environ}
        apart = {"HOME": str(home), "MEM0_DIR": str(home), "MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none"}
        process = await asyncio.create_subprocess_exec(
            python, str(Path(__file__).with_name("mem0_adds.py")), env=known | apart,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_LONGEST_RUN):
                out, problems = await process.communicate(json.dumps(told).encode())
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise RuntimeError(f"mem0 failed: {problems.decode()[-2000:]}")
        corpus.version = json.loads(out.decode().splitlines()[-1])["version"]
        corpus.theirs_embedded = model.embedded


def _told(report: Report, corpus: Corpus, *, targets: bool = False) -> None:
    """Add a corpus to the report; the targets are for all together."""
    name, thousand = corpus.name, corpus.events / 1000
    report.add(f"{name}: events", corpus.events)
    sides = {"ours": (corpus.ours, corpus.ours_embedded)}
    if corpus.theirs is not None:
        sides["mem0"] = (corpus.theirs, corpus.theirs_embedded)
    for who, (asked, embedded) in sides.items():
        report.add(f"{name}: {who}, calls", asked.calls / thousand, "/1,000")
        report.add(f"{name}: {who}, tokens", asked.tokens / thousand, "/1,000")
        report.add(f"{name}: {who}, calls for vectors", len(embedded) / thousand, "/1,000")
    if corpus.theirs is not None:
        calls, tokens = corpus.ours.calls / corpus.theirs.calls, corpus.ours.tokens / corpus.theirs.tokens
        report.add(f"{name}: calls, ours / mem0", calls, at_most=CALLS if targets else None)
        report.add(f"{name}: tokens, ours / mem0", tokens, at_most=TOKENS if targets else None)
    report.details[name] = {
        "sessions": corpus.sessions, "nights": corpus.nights, "events": corpus.events,
        "turns": sum(len(one.adds) for one in corpus.talks),
        **{who: {"calls": asked.calls, "prompt_tokens": asked.prompt_tokens, "purposes": asked.purposes,
                 "completion_tokens": asked.completion_tokens, "facts": asked.facts, "embeddings": len(embedded),
                 "embedded_tokens": embedded_tokens(embedded)} for who, (asked, embedded) in sides.items()},
    }  # fmt: skip


def _together(found: Sequence[Corpus]) -> Corpus:
    """Sum corpora up."""
    whole = Corpus("all", [])
    for one in found:
        whole.events += one.events
        whole.nights += one.nights
        whole.sessions += one.sessions
        whole.talks += one.talks
        whole.ours_embedded += one.ours_embedded
        whole.theirs_embedded += one.theirs_embedded
        whole.ours = whole.ours + one.ours
        if one.theirs is not None:
            whole.theirs = (whole.theirs or Asked()) + one.theirs
    return whole


async def _alone(options: argparse.Namespace) -> Report:
    async with open_server() as server:
        return await measure(server, options.scale, folder=options.folder, mem0=options.mem0)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="logs in any of the formats, to measure besides")
    parser.add_argument("--mem0", metavar="PYTHON", help="a Python that has mem0ai")
    parser.add_argument("--scale", choices=list(DIALOGUES), default="small")
    report = asyncio.run(_alone(parser.parse_args()))
    print(report.table())
    print(json.dumps(report.as_json()))


if __name__ == "__main__":
    main()
