"""Memory that moves: what is believed here as one signed file, and such a file into another installation's log.

A bundle holds statements with the words that they rest on, redacted and without anything hostile. What is imported is
events of a session of its own for each owner, so the nights derive it again, and erasing that session takes it back.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from consolidator.database import Connection, Database
from consolidator.errors import ImportRefused, UsageError
from consolidator.formats.common.project import derive_project
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.facts.candidates import COUNTED_PREDICATES, session_context
from consolidator.memory.facts.reconcile import normalize_value
from consolidator.memory.facts.remembered import (
    MAX_STATEMENT_CHARS,
    RECEIVED,
    RECEIVED_EXTRACTOR,
    as_sentence,
    clean_statement,
    read_received,
)
from consolidator.memory.facts.rule_block import BEGINNING, END
from consolidator.models.audience import pluralize
from consolidator.models.event import Event, NewEvent
from consolidator.models.memory_filter import ALL_AGENTS, FactFilter, LessonFilter, ProcedureFilter, SolutionFilter
from consolidator.models.payload import EventType
from consolidator.models.provenance import Provenance
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.credentials import sign_with_token
from consolidator.service.memory.decision_log import CHANNEL, MemoryOwner
from consolidator.service.memory.facts import list_facts, reconcile_facts
from consolidator.service.memory.learned import load_quotes
from consolidator.service.memory.lessons import COMMAND_KINDS, list_lessons
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.solutions import list_solutions
from consolidator.store.calls import scopes
from consolidator.store.facts import facts
from consolidator.store.log import events, sources
from consolidator.store.memory import lookup
from consolidator.store.sessions import sessions

T = TypeVar("T")
NAME, VERSION = "consolidator_memory", 1
MAX_ROWS = 20_000  # of each kind
MAX_LINE, MAX_BYTES = 64 << 10, 64 << 20
MAX_QUOTES, MAX_QUOTE, MAX_SENTENCE = 3, 300, 1000
MAX_DOCUMENTS, MAX_DOCUMENT = 200, 1 << 20  # of a folder; of one, in characters
_POINT = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(.+(?:\n[ \t]+(?![-*+\d ]).+)*)", re.MULTILINE)  # of a list
_FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.MULTILINE | re.DOTALL)
_OWN_BLOCK = re.compile(rf"{re.escape(BEGINNING)}.*?{re.escape(END)}", re.DOTALL)  # of accepted rules
_MARKS = re.compile(r"\*\*|(?<!\w)\[[ x]\] |(?: ?\[Task \d+\])+$")
_TASK_GROUP = re.compile(r"^# (?=Task Group:)", re.MULTILINE)  # of Codex's handbook
_APPLIES_TO = re.compile(r"^applies_to: cwd=(/.*?)/?(?:,| and |;|$)", re.MULTILINE)
# What Codex finds a task group by.
_INDEX = re.compile(r"^### (?:rollout_summary_files|keywords)\n(?:(?!#).*\n)*", re.MULTILINE)
_DIRECTORY = re.compile(r'"cwd":\s*("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class MemoryBundle:
    """A bundle that was read to its end and is whole."""

    installation: str  # where it comes from, by its own word
    is_signed: bool  # by the key that it was checked with
    rows: list[MovedMemory]


@dataclass(slots=True)
class Received:
    """What became of a bundle's statements."""

    installation: str
    is_signed: bool
    new: int = 0
    known: int = 0
    held: int = 0  # of the new ones, those that wait for a person
    erased: int = 0  # of sessions that were erased here
    sessions: list[str] = field(default_factory=list)


async def export_memory(
    database: Database, key: str, *, project: str | None = None, viewer: Viewer = OWNER
) -> list[str]:
    """Return the lines of a bundle of what agents are told here, signed with a key; of a project or of all.

    Without what is hostile, what was received from other installations, and what is of other people than the owner.
    """
    viewer.check_reads_all()
    header = {NAME: VERSION, "installation": socket.gethostname()[:100] or "unnamed"}
    lines = [_encode(header)]
    async for row in _list_rows(database, project, viewer):
        if text_harm(row.sentence) is None:
            values = row.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            lines.append(_encode(redact_json(values)))
    signature = sign_with_token(key, _digest(lines))
    return [*lines, _encode({"end": {"rows": len(lines) - 1, "signature": signature}})]


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n"


def _digest(lines: Iterable[str]) -> str:
    """Return what is signed."""
    return f"memory {hashlib.sha256(''.join(lines).encode('utf-8', 'surrogatepass')).hexdigest()}"


def _all_of(kind: str, rows: list[T]) -> list[T]:
    """Return the rows of a kind; raise UsageError where there may be more: a bundle says that it is whole."""
    if len(rows) >= MAX_ROWS:
        raise UsageError(f"a bundle holds fewer than {MAX_ROWS} {kind}: export one --project at a time")
    return rows


async def _list_rows(database: Database, project: str | None, viewer: Viewer) -> AsyncIterator[MovedMemory]:
    """Yield what is believed, by kind."""
    filters: Any = {"project": project, "limit": MAX_ROWS}
    believed = _all_of("facts", await list_facts(database, FactFilter(**filters), viewer=viewer))
    async with database.connection() as conn:
        rows = await lookup.load_cited_candidates(conn, [id for fact in believed for id in fact.evidence])
    cited = {row.id: row for row in rows}

    for fact in believed:  # what was received goes no further: its evidence is elsewhere, and would count twice
        own = [row for id in fact.evidence if (row := cited.get(id)) and row.extractor != RECEIVED_EXTRACTOR]
        predicate = "rule" if fact.predicate == "instruction" else fact.predicate  # an accepted one is a rule
        is_counted = predicate in COUNTED_PREDICATES  # of answers here, which say nothing elsewhere
        if own and fact.confidence == "explicit" and fact.value and not fact.peer and not is_counted:
            shared = {name: getattr(fact, name) for name in ("agent", "subject", "value", "sentence")}
            yield _row(
                "observation" if fact.kind == "observation" else "fact",
                [(row.quote, row.occurred_at, row.session_id) for row in own],
                **shared,
                predicate=predicate,
                project=fact.project if fact.level == "project" else None,
                fact_kind=fact.kind,
                trust=fact.trust,
                single_valued=any(row.single_valued for row in own),
                since=fact.valid_from,
                sessions=fact.sessions,
            )

    lessons = _all_of("lessons", await list_lessons(database, LessonFilter(**filters), viewer=viewer))
    quotes = await load_quotes(database, [], lessons, viewer=viewer)
    for lesson in lessons:
        if lesson.withheld is None:
            quote = quotes.get(lesson.id)
            agents = lesson.body.get("agents") or [ALL_AGENTS]
            yield _build_memory(
                "command" if lesson.kind in COMMAND_KINDS else "procedure",
                [(quote.text, None, quote.session_id)] if quote else [],
                agent=ALL_AGENTS if database.share_between_agents else agents[0],
                project=lesson.project,
                value=f"{lesson.kind} {lesson.key}",
                sentence=lesson.line,
                since=lesson.learned_at,
                sessions=lesson.body["sessions"],
            )

    for solution in _all_of("solutions", await list_solutions(database, SolutionFilter(**filters), viewer=viewer)):
        if solution.confirmed and not solution.withheld:
            yield _build_memory(
                "solution",
                [(str(each["quote"]), None, str(each["session_id"])) for each in solution.body.get("evidence", ())],
                agent=solution.agent,
                project=solution.project,
                value=solution.fingerprint,
                sentence=str(solution.body["line"]),
                since=solution.learned_at,
                sessions=solution.sessions,
            )
    for procedure in _all_of("procedures", await list_procedures(database, ProcedureFilter(**filters), viewer=viewer)):
        if not procedure.mostly_fails:
            yield _build_memory(
                "procedure",
                [],
                agent=procedure.agent,
                project=procedure.project,
                value=procedure.id,
                sentence=f"Done in this order: {procedure.title}",
                since=procedure.learned_at,
                sessions=procedure.support,
            )


Proofs = Sequence[tuple[str, datetime | None, str]]  # quote, when, session


def _build_memory(kind: str, proofs: Proofs, *, value: str, sentence: str, **more: Any) -> MovedMemory:
    """Return the row of what is no fact: its words are what is told, its key is what a later bundle knows it by."""
    shared = {"subject": "project", "predicate": f"received_{kind}", "fact_kind": "observation", "trust": "agent"}
    return _row(kind, proofs, value=value[:MAX_QUOTE], sentence=sentence[:MAX_SENTENCE], **shared, **more)


def _row(kind: str, proofs: Proofs, *, project: str | None, **values: Any) -> MovedMemory:
    home = str(Path.home())
    place = f"~{project.removeprefix(home)}" if project and f"{project}/".startswith(f"{home}/") else project
    latest = [{"text": text[:MAX_QUOTE], "at": at, "session": session} for text, at, session in proofs if text.strip()]
    return MovedMemory(kind=kind, project=place or None, quotes=latest[-MAX_QUOTES:], **values)


def read_bundle(text: str, key: str) -> MemoryBundle:
    """Return what a bundle holds, and whether this key signed it. Raises ImportRefused for one that is damaged."""
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    if len(text) > MAX_BYTES or any(len(line) > MAX_LINE for line in lines):
        raise ImportRefused("this is no memory bundle: it is too long; nothing was written")
    try:
        header, *rows, end = [json.loads(line) for line in lines]
        if header[NAME] != VERSION:
            raise ImportRefused(f"the bundle is of version {header[NAME]!r}, and this consolidator reads {VERSION}")
        installation = redact(str(header["installation"]))[:100]
        if end["end"]["rows"] != len(rows):
            raise ImportRefused("the bundle was cut off or changed: export it again; nothing was written")
        signature = str(end["end"].get("signature") or "")
        moved = [MovedMemory.model_validate(row) for row in rows]
    except ValidationError as error:
        first = error.errors()[0]
        raise ImportRefused(
            f"the bundle says what no memory can be ({'.'.join(map(str, first['loc']))}: {first['msg']})"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ImportRefused(
            "this is no memory bundle, or it was cut off: `consolidator memory export` writes one; nothing was written"
        ) from error
    expected = sign_with_token(key, _digest(lines[:-1]))
    is_signed = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))
    return MemoryBundle(installation, is_signed, moved)


def read_documents(path: Path, project: str | None = None) -> MemoryBundle:
    """Return the points of an agent's notes or of an instruction file, as proposals: of one file, or of a folder's.

    Claude Code and Codex say of their memory folders that the agent writes them, and of CLAUDE.md and AGENTS.md that
    people do; nothing proves either. The project is that of the transcripts beside the notes, or of the file's folder,
    or what a group of Codex's handbook applies to. Codex makes the handbook of the other files in its folder.
    """
    if (path / "memory_summary.md").is_file():  # which Codex writes beside its handbook
        path /= "MEMORY.md"
    files = sorted(path.rglob("*.md"))[:MAX_DOCUMENTS] if path.is_dir() else [path]
    rows = [row for file in files for row in _read_points(file, project)]
    if not rows:
        raise ImportRefused(f"{path} has no list with points in Markdown: there is nothing to propose")
    return MemoryBundle(str(path).replace(str(Path.home()), "~", 1)[:200], is_signed=False, rows=rows)


def _read_points(file: Path, named: str | None) -> Iterator[MovedMemory]:
    try:
        text = file.read_text("utf-8", "replace")[:MAX_DOCUMENT]
        since = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except OSError as error:
        raise ImportRefused(f"{file} cannot be read: {error.strerror}") from error
    place = named or find_document_project(file)
    for group in _TASK_GROUP.split(_OWN_BLOCK.sub("", _FENCE.sub("", text))):
        applies = _APPLIES_TO.search(group) if group.startswith("Task Group:") else None
        project = derive_project(applies[1]) if applies and named is None else place
        yield from _list_points(file, _INDEX.sub("", group), project, since)


def _list_points(file: Path, text: str, project: str | None, since: datetime) -> Iterator[MovedMemory]:
    agent = ALL_AGENTS if project else "codex" if ".codex" in file.parts else "claude-code"
    for point in dict.fromkeys(" ".join(match[1].split()) for match in _POINT.finditer(text)):
        words = _MARKS.sub("", point)
        if 2 < len(words) <= MAX_STATEMENT_CHARS and text_harm(words) is None:
            shared = {"subject": "user", "predicate": "remember", "value": words, "sentence": as_sentence(words)}
            quote = [(words, since, file.name)]
            yield _row(
                "fact", quote, agent=agent, project=project, fact_kind="project", trust="agent", since=since, **shared
            )


def find_document_project(file: Path) -> str | None:
    """Return the project that a document is about; None for what holds everywhere."""
    if file.is_relative_to(Path.home() / ".claude" / "projects"):
        folder = next(parent for parent in file.parents if parent.parent.name == "projects")
        for log in sorted(folder.glob("*.jsonl"), key=lambda log: -log.stat().st_mtime)[:5]:
            with log.open(encoding="utf-8", errors="replace") as lines:
                if (match := _DIRECTORY.search(lines.read(MAX_LINE))) is not None:
                    return derive_project(json.loads(match[1]))
    is_agents = any(file.is_relative_to(Path.home() / folder) for folder in (".claude", ".codex"))
    return None if is_agents else derive_project(str(file.absolute().parent))


async def import_memory(
    database: Database, bundle: MemoryBundle, *, project: str | None = None, viewer: Viewer = OWNER
) -> Received:
    """Write a bundle's statements into the log, and believe them by the usual rules; those known already are left out.

    What is not signed with our key, is hostile or commands a memory waits for a person's word. `project` is where what
    was learned in a project goes. Raises Forbidden without the scope admin.
    """
    viewer.check_may("admin")
    received = Received(bundle.installation, bundle.is_signed)
    own = {_identify(row, None) async for row in _list_rows(database, None, viewer)}
    owners: dict[MemoryOwner, list[MovedMemory]] = defaultdict(list)
    for row in bundle.rows:
        if _identify(row, project) in own:  # what sessions here showed is told better, and counted by them
            received.known += 1
        else:
            owners[_owner_of(row, project)].append(row)
    for owner, rows in owners.items():
        await _receive(database, owner, rows, received, viewer)
    return received


def _identify(row: MovedMemory, project: str | None) -> tuple[MemoryOwner, str, str, str]:
    return _owner_of(row, project), row.subject, row.predicate, normalize_value(row.value)


def _owner_of(row: MovedMemory, project: str | None) -> MemoryOwner:
    place = row.project
    if place is not None and (place == "~" or place.startswith("~/")):
        place = f"{Path.home()}{place[1:]}"
    return MemoryOwner(row.agent, None if place is None else project or place, None if place else row.peer)


async def _receive(
    database: Database, owner: MemoryOwner, rows: Sequence[MovedMemory], received: Received, viewer: Viewer
) -> None:
    """Receive what belongs to one owner, in a session of its own."""
    trusted = "signed" if received.is_signed else "unsigned"
    key = f"{owner.key}#{trusted}:{received.installation}"
    session_id = sessions.imported_session_id(CHANNEL, key)
    async with database.transaction() as conn:
        if await sources.filter_erased(conn, [session_id]):
            received.erased += len(rows)
            return
        await scopes.lock_agents(conn, [owner.memory])
        present = set(await facts.list_values_of_session(conn, session_id))
        data = {(each["subject"], each["predicate"], each["value"]): each for each in _list_data(rows, received)}
        new = [each for key, each in data.items() if key not in present]
        received.known += len(rows) - len(new)
        if new:
            await _log_statements(conn, session_id, key, owner, new, received, database.clock.now(), viewer)
            await reconcile_facts(conn, owner.memory, Provenance(None, "person", database.clock.now()))


def _list_data(rows: Iterable[MovedMemory], received: Received) -> Iterator[dict[str, Any]]:
    """Yield rows as events hold them: redacted, with where each comes from beside the words that it rests on."""
    held = None if received.is_signed else f"from {received.installation}: nothing proves who said it"
    for row in rows:
        words = f"“{row.quotes[-1].text}”" if row.quotes else row.sentence
        count = pluralize(row.sessions, "session")
        quote = f"{words} (from {received.installation}, {count})"
        texts = {name: getattr(row, name) for name in ("subject", "predicate", "value", "sentence")} | {"quote": quote}
        yield {
            **{name: clean_statement(text, redact) for name, text in texts.items()},
            "decision": RECEIVED,
            "kind": row.fact_kind,
            "trust": row.trust,
            "single_valued": row.single_valued,
            "quotes": redact_json([each.model_dump(mode="json") for each in row.quotes]),
            "sessions": row.sessions,
            "from": received.installation,
            "held": held,
            "occurred_at": row.since.isoformat(),
        }


async def _log_statements(
    conn: Connection,
    session_id: str,
    key: str,
    owner: MemoryOwner,
    statements: Sequence[dict[str, Any]],
    received: Received,
    now: datetime,
    viewer: Viewer,
) -> None:
    """Append statements to their session, and store their candidates as the night would."""
    if session_id not in {row.id for row in await sessions.get_each(conn, [session_id])}:
        values = {"id": session_id, "key": key, "agent": owner.memory, "channel": CHANNEL, "peer": owner.peer}
        values |= {"project": owner.project, "recorded_by": viewer.name}
        await sessions.open_current(conn, values, now=now)
    principal = viewer.user
    new_events = [NewEvent(EventType.POLICY_DECISION, data, principal=principal) for data in statements]
    appended = await events.append(conn, session_id, new_events, now=now)
    context = session_context(await sessions.get(conn, session_id))
    first = appended.last_seq - len(statements) + 1
    logged = [
        Event(session_id, first + number, EventType.POLICY_DECISION, data, now, principal=principal)
        for number, data in enumerate(statements)
    ]
    candidates = [candidate for event in logged if (candidate := read_received(event, context, redact)) is not None]
    await facts.save_candidates(conn, [asdict(each) for each in candidates], run_id="")
    received.new += len(candidates)
    received.held += sum(each.quarantined is not None for each in candidates)
    received.sessions.append(session_id)


Text = Annotated[str, Field(min_length=1, max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]


class MovedQuote(BaseModel):
    """Words that a statement rests on."""

    model_config = ConfigDict(frozen=True)

    text: Text
    at: datetime | None = None
    session: Annotated[str, Field(max_length=200)] = ""


class MovedMemory(BaseModel):
    """A fact, or a lesson, solution or procedure in its own words."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["fact", "observation", "command", "solution", "procedure"]
    agent: Name  # whose memory it is
    project: Name | None = None  # "~" stands for the home directory
    peer: Name | None = None
    subject: Name
    predicate: Name
    value: Text
    sentence: Text
    fact_kind: Literal[
        "preference", "profile", "environment", "project", "decision", "constraint", "relation", "observation"
    ]
    trust: Literal["person", "user", "agent", "tool"]
    single_valued: bool = False
    since: datetime
    sessions: Annotated[int, Field(ge=0, le=10**9)] = 1
    quotes: Annotated[tuple[MovedQuote, ...], Field(max_length=20)] = ()
