"""What memory asks of a model: calls and tokens for 1,000 events, ours and mem0's, of the same conversations.

    python -m benchmarks.model_use.models [FOLDER] [--mem0 PYTHON] [--scale small]

One stand-in server answers both over HTTP with the same facts, each in its own format. mem0 runs under a Python that
has it (`--mem0`, or CONSOLIDATOR_TEST_MEM0), with its local vector store.
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

from benchmarks.harness import locomo
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.model_use.stand_in_model import ModelUsage, count_embedded_tokens
from benchmarks.quality.synthetic_dialogues import generate_dialogue
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.demo import FIRST_DAY, list_sources, write_logs
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import JobRunner
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.queries import fetch_column
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer
from consolidator.testing.model_server import DIMENSIONS

TITLE = "what a model is asked for 1,000 events, beside mem0"
DIALOGUES = {"tiny": (1, 3), "small": (3, 20), "full": (10, 30)}  # their number, and the sessions of each
DAYS = {"tiny": 4, "small": 60, "full": 60}  # of the demo
MAX_CALLS_RATIO, MAX_TOKENS_RATIO = 0.1, 0.25  # ours / mem0's
MEM0_PYTHON = "CONSOLIDATOR_TEST_MEM0"
MODEL, EMBED_MODEL = "gpt-5-mini", "text-embedding-3-small"
_MEM0_TIMEOUT = 3600  # seconds
_NOT_WORD = re.compile(r"\W+")
Messages = list[dict[str, str]]


@dataclass(slots=True)
class Conversation:
    """A session as mem0 gets it."""

    user: str
    adds: list[Messages]  # the messages of each call of add()


@dataclass(slots=True)
class ModelCorpus:
    """Conversations, and what each side asked a model for them."""

    name: str
    sources: list[ImportSource]
    events: int = 0
    nights: int = 0
    sessions: int = 0
    ours: ModelUsage = field(default_factory=ModelUsage)
    ours_embedded: list[list[str]] = field(default_factory=list)  # the texts of each call for vectors
    conversations: list[Conversation] = field(default_factory=list)
    mem0: ModelUsage | None = None
    mem0_embedded: list[list[str]] = field(default_factory=list)
    mem0_version: str = ""


async def measure(
    server: BenchmarkServer, scale: str, *, folder: Path | None = None, mem0_python: str | None = None
) -> Report:
    """Measure both sides on the demo's sessions, on synthetic dialogues, and on a folder of logs if there is one."""
    report = Report("models", TITLE, scale)
    python = mem0_python or os.environ.get(MEM0_PYTHON)
    with tempfile.TemporaryDirectory(prefix="consolidator-bench-") as temporary:
        corpora = await asyncio.to_thread(_write_corpora, Path(temporary), scale, folder)
        for corpus in corpora:
            await _run_nights(server, corpus)
            if python is not None:
                await _run_mem0(python, corpus, Path(temporary) / f"mem0-{corpus.name.replace(' ', '-')}")
            _add_figures(report, corpus)
    if len(corpora) > 1:
        _add_figures(report, _sum_corpora(corpora), targets=True)
    if python is None:
        report.notes.append(f"mem0 left out: no Python that has mem0ai is named (--mem0 or {MEM0_PYTHON})")
    else:
        report.notes.append(
            f"mem0ai {corpora[0].mem0_version}: add() for each turn, a user's message with its answers, as its "
            "documentation shows; it does not get tool results"
        )
    report.notes.append("ours: a night for each day with sessions; rules run too, but ask no model")
    return report


def _write_corpora(target: Path, scale: str, folder: Path | None) -> list[ModelCorpus]:
    """Write the logs of the demo and synthetic dialogues below `target`."""
    demo = target / "demo"
    write_logs(demo, FIRST_DAY, timedelta(days=DAYS[scale]))
    corpora = [ModelCorpus("demo", [_parse_source(source) for source in list_sources(demo)])]
    count, length = DIALOGUES[scale]
    dialogues = target / "dialogues"
    dialogues.mkdir()
    for seed in range(count):
        (dialogues / f"synthetic-{seed}.json").write_text(json.dumps(generate_dialogue(seed, sessions=length)))
    corpora.append(ModelCorpus("dialogues", [ImportSource(dialogues, locomo)]))
    if folder is not None:
        corpora.append(ModelCorpus(folder.name, [ImportSource(folder, None)]))
    return corpora


def _parse_source(source: str) -> ImportSource:
    name, _, path = source.partition(":")
    return ImportSource(Path(path), get_format(name))


async def _run_nights(server: BenchmarkServer, corpus: ModelCorpus) -> None:
    """Import conversations and run a night for each day of them."""
    clock = FrozenClock(datetime.now(UTC))
    async with server.open_database(clock) as database, ModelServer(answers=corpus.ours) as model:
        await import_sources(database, corpus.sources, lenient=True)
        clock.advance(timedelta(days=2))
        sessions_by_day = await _load_days(database, corpus)
        update = {"openai_base_url": model.url, "model": MODEL, "embed_model": EMBED_MODEL}
        jobs = JobRunner(database, server.default_settings().model_copy(update=update))
        for _, session_ids in sorted(sessions_by_day.items()):
            result = await jobs.run_now("consolidation", only=session_ids)
            assert not result["model"]["failures"], result["model"]
            clock.advance(timedelta(minutes=1))
        corpus.nights = len(sessions_by_day)
        corpus.ours_embedded = model.embedded_texts


async def _load_days(database: Database, corpus: ModelCorpus) -> dict[str, list[str]]:
    """Return the sessions of each day, and add their conversations to the corpus."""
    days: defaultdict[str, list[str]] = defaultdict(list)
    async with database.connection() as conn:
        session_ids = await fetch_column(conn, "select id from session order by created_at, id")
        for session in await sessions.get_each(conn, session_ids):
            log = await events.read(conn, session.id, bounds=session.ingest_bounds)
            if not log:
                continue
            days[max(event.occurred_at for event in log).date().isoformat()].append(session.id)
            corpus.events += len(log)
            corpus.sessions += 1
            if session.kind != "sub-agent":
                owner = session.peer or session.project or session.agent
                corpus.conversations.append(Conversation(_NOT_WORD.sub("_", owner), split_turns(log)))
    return days


def split_turns(log: Sequence[Event]) -> list[Messages]:
    """Return the messages of each add(): a user's message and its answers; between two people, one of each."""
    spoken = [event for event in log if event.type is EventType.USER_MESSAGE and event.data.get("speaker")]
    if spoken:
        first = spoken[0].data["speaker"]
        messages = [
            _message(
                "user" if event.data["speaker"] == first else "assistant",
                f"{event.data['speaker']}: {event.data['text']}",
            )
            for event in spoken
        ]
        return [messages[start : start + 2] for start in range(0, len(messages), 2)]
    turns: list[Messages] = []
    for event in log:
        text = str(event.data.get("text") or "").strip()
        if not text:
            continue
        if event.type is EventType.USER_MESSAGE and event.data.get("origin", "user") == "user":
            turns.append([_message("user", text)])
        elif event.type is EventType.ASSISTANT_RESPONSE and turns:
            turns[-1].append(_message("assistant", text))
    return turns


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


async def _run_mem0(python: str, corpus: ModelCorpus, home: Path) -> None:
    """Have mem0 add the same conversations, with a home of its own; only the stand-in server gets its requests."""
    corpus.mem0 = ModelUsage()
    await asyncio.to_thread(home.mkdir)
    async with ModelServer(answers=corpus.mem0) as model:
        request = {
            "url": model.url,
            "folder": str(home),
            "dimensions": DIMENSIONS,
            "model": MODEL,
            "embed_model": EMBED_MODEL,
            "conversations": [{"user": entry.user, "adds": entry.adds} for entry in corpus.conversations],
        }
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TIKTOKEN_CACHE_DIR") if name in os.environ}
        isolated = {"HOME": str(home), "MEM0_DIR": str(home), "MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none"}
        process = await asyncio.create_subprocess_exec(
            python, str(Path(__file__).with_name("mem0_client.py")), env=inherited | isolated,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_MEM0_TIMEOUT):
                output, errors = await process.communicate(json.dumps(request).encode())
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise RuntimeError(f"mem0 failed: {errors.decode()[-2000:]}")
        corpus.mem0_version = json.loads(output.decode().splitlines()[-1])["version"]
        corpus.mem0_embedded = model.embedded_texts


def _add_figures(report: Report, corpus: ModelCorpus, *, targets: bool = False) -> None:
    """Add a corpus to the report; only the sum of all has targets."""
    name, thousands = corpus.name, corpus.events / 1000
    report.add(f"{name}: events", corpus.events)
    sides = {"ours": (corpus.ours, corpus.ours_embedded)}
    if corpus.mem0 is not None:
        sides["mem0"] = (corpus.mem0, corpus.mem0_embedded)
    for side, (usage, embedded) in sides.items():
        report.add(f"{name}: {side}, calls", usage.calls / thousands, "/1,000")
        report.add(f"{name}: {side}, tokens", usage.tokens / thousands, "/1,000")
        report.add(f"{name}: {side}, calls for vectors", len(embedded) / thousands, "/1,000")
    if corpus.mem0 is not None:
        calls, tokens = corpus.ours.calls / corpus.mem0.calls, corpus.ours.tokens / corpus.mem0.tokens
        report.add(f"{name}: calls, ours / mem0", calls, at_most=MAX_CALLS_RATIO if targets else None)
        report.add(f"{name}: tokens, ours / mem0", tokens, at_most=MAX_TOKENS_RATIO if targets else None)
    report.details[name] = {
        "sessions": corpus.sessions, "nights": corpus.nights, "events": corpus.events,
        "turns": sum(len(entry.adds) for entry in corpus.conversations),
        **{side: {"calls": usage.calls, "prompt_tokens": usage.prompt_tokens, "purposes": usage.purposes,
                  "completion_tokens": usage.completion_tokens, "facts": usage.facts, "embeddings": len(embedded),
                  "embedded_tokens": count_embedded_tokens(embedded)} for side, (usage, embedded) in sides.items()},
    }  # fmt: skip


def _sum_corpora(corpora: Sequence[ModelCorpus]) -> ModelCorpus:
    total = ModelCorpus("all", [])
    for corpus in corpora:
        total.events += corpus.events
        total.nights += corpus.nights
        total.sessions += corpus.sessions
        total.conversations += corpus.conversations
        total.ours_embedded += corpus.ours_embedded
        total.mem0_embedded += corpus.mem0_embedded
        total.ours = total.ours + corpus.ours
        if corpus.mem0 is not None:
            total.mem0 = (total.mem0 or ModelUsage()) + corpus.mem0
    return total


async def _run(options: argparse.Namespace) -> Report:
    async with open_server() as server:
        return await measure(server, options.scale, folder=options.folder, mem0_python=options.mem0)


def main() -> None:
    """Parse the command line and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_use.models", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="further logs to measure, in any of the formats")
    parser.add_argument("--mem0", metavar="PYTHON", help="a Python that has mem0ai")
    parser.add_argument("--scale", choices=list(DIALOGUES), default="small")
    report = asyncio.run(_run(parser.parse_args()))
    print(report.format_table())
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
