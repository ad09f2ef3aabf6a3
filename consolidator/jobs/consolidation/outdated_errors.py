"""Derives errors again whose fingerprints another version of the product made, so that one error has one name.

It happens in the first merge after an upgrade, in the merge's transaction.
"""

from __future__ import annotations

from consolidator.database import Connection
from consolidator.jobs.consolidation.persistence import derive_again, lock_for_rederiving, save_error_records
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.error_tracker import renew_fingerprint
from consolidator.memory.solutions.fingerprint import VERSION
from consolidator.models.session import SessionRow
from consolidator.store.calls import digests, error_records
from consolidator.store.sessions import sessions


async def derive_outdated_errors(conn: Connection, agent: str, *, run_id: str) -> int:
    """Derive an agent's outdated errors again, and delete their solutions; return how many sessions had some.

    A session's digest is derived with its errors, since it holds those that are still open. Of a session whose
    beginning is pruned, the stored errors get a new fingerprint.
    """
    names = await error_records.list_outdated_sessions(conn, agent, VERSION)
    if not names:
        return 0
    salt = await digests.load_salt(conn)
    for name in names:
        if await lock_for_rederiving(conn, name):
            session = await sessions.get(conn, name)
            if session.is_whole:
                async for _ in derive_again(conn, session, salt, run_id=run_id, candidates=False):
                    pass
            else:
                await _renew_fingerprints(conn, session)
    await error_records.delete_outdated_solutions(conn, agent, version=VERSION)
    return len(names)


async def _renew_fingerprints(conn: Connection, session: SessionRow) -> None:
    stored = await error_records.list_outdated(conn, session.id, version=VERSION)
    await save_error_records(conn, session, [renew_fingerprint(ErrorRecord.from_json(record)) for record in stored])
