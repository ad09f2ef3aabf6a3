"""Verifies the log as evidence: recomputes every hash here, so that nothing in the database has to be trusted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from consolidator.database.partitions import Connection
from consolidator.database.schema import function_hashes
from consolidator.store.log import seals
from consolidator.store.log.seals import ChainedEvent, hash_content, hash_event, hash_root, hash_session_id

MAX_PROBLEMS = 20  # reported of each kind


async def find_tampering(conn: Connection) -> dict[str, list[str]]:
    """Return, for each part of invariant I17, the first violations as texts; run it in a read-only transaction."""
    return {
        "I17 events are what was appended": await find_broken_chains(conn),
        "I17 pieces and deliveries are what was added": await seals.find_broken_output(conn),
        "I17 children begin where they left their parents": await seals.find_broken_beginnings(conn),
        "I17 sessions read their own past": await seals.find_foreign_pasts(conn),
        "I17 blobs are what was appended": await seals.find_rewritten_blobs(conn),
        "I17 sealed sessions are as they were sealed": await seals.find_broken_seals(conn),
        "I17 sealed messages are as they were sealed": await seals.find_broken_messages(conn),
        "I17 seals follow from one another": await find_broken_roots(conn),
        "I17 the guards are this version's": await find_changed_guards(conn),
    }


async def find_broken_chains(conn: Connection) -> list[str]:
    """Return the sessions whose events do not hash to what was stored with them, each with the first such event."""
    problems: list[str] = []
    async for problem in _check_chains(seals.stream_chains(conn)):
        problems.append(problem)
        if len(problems) == MAX_PROBLEMS:
            break
    return problems


@dataclass(slots=True)
class _Chain:
    """The check of one session's chain, up to the first problem."""

    session: ChainedEvent
    last: int = 0  # seq of the last event that was checked
    previous: bytes | None = None  # hash of the event before
    problem: str | None = field(default=None)

    def __post_init__(self) -> None:
        session = self.session
        self.last = max(session.pruned_to, session.unchained_to)
        pruned = session.pruned_to > session.unchained_to and session.pruned_hash is not None
        self.previous = bytes(session.pruned_hash or b"") if pruned else hash_session_id(session.id)

    def add(self, event: ChainedEvent) -> None:
        """Check the next event."""
        if (
            self.problem
            or event.seq is None
            or event.event_type is None
            or event.data is None
            or event.created_at is None
        ):
            return
        if event.seq <= event.unchained_to:
            return
        content = hash_content(event.event_type, event.task_id, event.tool_name, event.data, event.principal)
        expected = hash_event(self.previous or b"", content, event.seq, event.created_at)
        if event.seq != self.last + 1:
            self.problem = f"{event.id}: event {self.last + 1} is missing"
        elif event.hash is None or bytes(event.hash) != expected:
            self.problem = f"{event.id}: event {event.seq} is not what was appended"
        self.last, self.previous = event.seq, expected

    def finish(self) -> str | None:
        """Return the problem, if any, when every event was checked."""
        session = self.session
        if self.problem is None and session.head > session.unchained_to:
            if self.last != session.head and session.head > session.pruned_to:
                return f"{session.id}: ends at event {self.last}, but its head is {session.head}"
            if self.last == session.head > session.pruned_to and bytes(session.chain_hash or b"") != self.previous:
                return f"{session.id}: its chain does not end with event {self.last}"
        return self.problem


async def _check_chains(events: AsyncIterator[ChainedEvent]) -> AsyncIterator[str]:
    chain: _Chain | None = None
    async for event in events:
        if chain is None or chain.session.id != event.id:
            if chain is not None and (problem := chain.finish()):
                yield problem
            chain = _Chain(event)
        chain.add(event)
    if chain is not None and (problem := chain.finish()):
        yield problem


async def find_broken_roots(conn: Connection) -> list[str]:
    """Return the seals that do not follow from what they cover and from the seal before."""
    problems: list[str] = []
    root = b""
    for number, seal in enumerate(await seals.list_seals(conn), 1):
        if seal.number != number:
            return [*problems, f"seal {number} is missing"][:MAX_PROBLEMS]
        covered = await seals.list_sealed_sessions(conn, number)
        root = hash_root(root, covered, seal.output_to, await seals.list_sealed_messages(conn, number))
        if root != bytes(seal.root) or len(covered) != seal.sessions:
            problems.append(f"seal {number} of {seal.sealed_at.isoformat()} does not match what it covers")
            root = bytes(seal.root)
    return problems[:MAX_PROBLEMS]


async def find_changed_guards(conn: Connection) -> list[str]:
    """Return the functions of the schema that are missing, or whose source is not this version's."""
    present = await seals.list_guards(conn, list(function_hashes()))
    return [
        f"function {name} {'is missing' if name not in present else 'has another source than this version knows'}"
        for name, source in function_hashes().items()
        if present.get(name) != source
    ]


async def find_missing_seals(conn: Connection, exported: Mapping[int, str]) -> list[str]:
    """Return the seals (number -> root as hex digits) of a copy kept elsewhere that this log does not have."""
    roots = {seal.number: bytes(seal.root).hex() for seal in await seals.list_seals(conn)}
    return [
        f"seal {number} of the copy is {'missing' if number not in roots else 'another one'} here"
        for number, root in sorted(exported.items())
        if roots.get(number) != root
    ][:MAX_PROBLEMS]
