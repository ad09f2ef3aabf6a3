"""Verifies the log as evidence: recomputes every hash here, so that nothing in the database has to be trusted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from consolidator.database.partitions import Connection
from consolidator.store.log import seals
from consolidator.store.log.hash_chain import hash_content, hash_event, hash_session_id
from consolidator.store.log.seals import ChainedEvent, hash_root

MAX_PROBLEMS = 20  # reported of each kind

# SHA-256 of the bodies of the functions that guard the log; a migration that changes one changes it here.
GUARDS = {
    "begin_pruning": "9b23e0f5b8ea94401b36113c236ecf87cb21cc9b63248e99ed0a5451da64996d",
    "collect_blobs": "c4cca4a7d0aa2868a4d8fb08f01017836b8b68d78f452da789129b9b73a44dde",
    "delete_pruned_events": "5931b1c5e133ed7ac4949df0fb3a0d8eb1b93cd4d717024ad3d6b0b54f42b503",
    "delete_pruned_output": "499bed40976d5bc9dfa73198cb130bbe483af376efb903cb58fa1cea8fd6d638",
    "drop_log_partition": "e2c22a46aecb7aa1a67e75835783a31b18276d7caae738bea91fb1e7f77c6354",
    "erase_session": "59fd7e3ba306f8e553cee7b946d5d0ef743624b99b7e653649f87eee031e7bfc",
    "finish_partition_drops": "80d722ee7268ff5debe8670c871f36303ebe6c8f84554441c121225a90a31dd1",
    "forget_claims": "841f0199b806d0006a2c079ee13940bd94b1eea2d846e0e3236ddb6de5249f4c",
    "inherit_past": "f13ccf6da127053d07ebd98ceb15fcd0576d38a3582e654c772c949f3715ab5a",
    "is_of_this_transaction": "1f543ff9b219dde76c5ed78744b38f1a68686d3be9e0db7ba49a23d8adcf2b9c",
    "is_owner_login": "fa1817b15d3745625b902fcf2ebd7da1edd9bb3665c5fc90fd90d6c87f9bb37b",
    "mark_recorded": "4a19f956181c955bb184e3b5171e421c46c2bda73a646dfcf6336ae429b7fdf0",
    "move_to_root": "02b6a05cfdfe03f109402b00778bfc6b41253b2964bee70e4600b7678eec168f",
    "place_keys": "071e6a4b5093041689d0b366ed4f31a176754050732bce3aeeb7235479efba9c",
    "prune_session": "c9562774765a533f5a4bf97664b4862c88722ab8af8b1410d8cd11b8fb5a4b1e",
    "read_floor": "82c92201d47627fe5cce2944abdc468b741e57469fc92edd3b6d21d17281e089",
    "refuse_companion_change": "2ee5f348ddaba82fb03ff01ef46169ffb7dd1c6c430522365da925d25330ae40",
    "refuse_companion_delete": "6a681dea3ce0b4e36341e6ec1c5951610118a93a1f80cd469ad575e5ad53f09e",
    "refuse_event_change": "9374e07a346cd8cc7aaf99adf150fc3bb78e962e686d4f2fee773afd5b9eb227",
    "refuse_event_delete": "2cf420c5795baeaf2843c2f6365682d83ba9a14f12c8f37f83c529f75460301a",
    "refuse_event_truncate": "a1b54db79dc34b429c7b047648b5f2699e0467af8bfec18bf06d497208f774a1",
    "seal_chains": "3e68db6630418087a5d9b6430e2f2d28b8d7b37c711aa1b1c0b7439bc7944796",
    "set_parent": "323ca7b25be9b791d12669ef841c5ef7ad6ad56637735d7e2c42392f33411337",
    "set_past": "3ac19826f9ee4eea8539b06b12d0dc3e7b0e4a6bfcdc0a3ecce26cb8dab57289",
    "stamp_awaited_events": "af9f0849500f1a12e4b09f4eaa6b1e0e177e7da395802a15b90f79b0fe94cbc7",
    "stamp_events": "e1eb3a1206d63cb147c146defaa8d91759c232bddbcb90c2a9cfe844a5ffa0f2",
    "stamp_settled_events": "2c80a6f74b6dc8b22348ae3aee5caa00630636df6bb3f091a1b12bb8247f96da",
}


async def find_tampering(conn: Connection) -> dict[str, list[str]]:
    """Return, for each part of invariant I17, the first violations as texts; run it in a read-only transaction."""
    return {
        "I17 events are what was appended": await find_broken_chains(conn),
        "I17 children begin where they left their parents": await seals.find_broken_beginnings(conn),
        "I17 sessions read their own past": await seals.find_foreign_pasts(conn),
        "I17 blobs are what was appended": await seals.find_rewritten_blobs(conn),
        "I17 sealed sessions are as they were sealed": await seals.find_broken_seals(conn),
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
        root = hash_root(root, covered)
        if root != bytes(seal.root) or len(covered) != seal.sessions:
            problems.append(f"seal {number} of {seal.sealed_at.isoformat()} does not match what it covers")
            root = bytes(seal.root)
    return problems[:MAX_PROBLEMS]


async def find_changed_guards(conn: Connection) -> list[str]:
    """Return the guarding functions that are missing, or whose source is not this version's."""
    present = {guard.name: guard.source for guard in await seals.list_guards(conn, list(GUARDS))}
    return [
        f"function {name} {'is missing' if name not in present else 'has another source than this version knows'}"
        for name, source in GUARDS.items()
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
