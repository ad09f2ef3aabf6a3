"""The ledger's queries: runs, their units, who holds them, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from ulid import ULID

from consolidator.database.jsonb import dumps, escape
from consolidator.database.partitions import Connection
from consolidator.errors import NotFound
from consolidator.store.queries import Row, execute, execute_each, load, row, rows

_SQL = load("nights/runs")


async def start(
    conn: Connection,
    *,
    job: str,
    slot: datetime,
    trigger: str,
    owner: str,
    now: datetime,
    arguments: dict[str, Any] | None = None,
) -> Row:
    """Return the run of a job at a slot, beginning it if nobody has."""
    values = {
        "id": str(ULID.from_datetime(now)),
        "job": job,
        "slot": slot,
        "trigger": trigger,
        "owner": owner,
        "now": now,
        "arguments": Jsonb(arguments or {}),
    }
    await execute(conn, _SQL["start"], values)
    found = await row(conn, _SQL["at_slot"], values)
    assert found is not None
    return found


async def get(conn: Connection, run_id: str) -> Row:
    """Return a run; raise NotFound where there is none."""
    found = await row(conn, _SQL["get"], {"id": run_id})
    if found is None:
        raise NotFound(f"no run {run_id!r}; `consolidator runs` lists them")
    return found


async def unfinished(conn: Connection, *, job: str, arguments: dict[str, Any]) -> Row | None:
    """Return the run of a job with these arguments that was cut short, if there is one."""
    return await row(conn, _SQL["unfinished"], {"job": job, "arguments": Jsonb(arguments)})


async def resume(conn: Connection, run_id: str, *, owner: str, now: datetime) -> None:
    """Take up a run that was cut short."""
    await execute(conn, _SQL["resume"], {"run": run_id, "owner": owner, "now": now})


async def last_slot(conn: Connection, job: str, *, most: int) -> datetime | None:
    """Return the latest scheduled slot of a job that has ended; one that died is tried `most` times."""
    found = await row(conn, _SQL["last_done"], {"job": job, "most": most})
    return None if found is None else found["slot"]


async def last_ended(conn: Connection, job: str) -> Row | None:
    """Return the run of a job that ended last."""
    return await row(conn, _SQL["last_ended"], {"job": job})


async def add_units(
    conn: Connection, run_id: str, units: Sequence[str], *, phase: int = 0, again: bool = False
) -> None:
    """Add units of work to a run; those it has already stay as they are, but with `again` what has ended is opened."""
    await execute(conn, _SQL["add_units"], {"run": run_id, "units": list(units), "phase": phase, "again": again})


async def claim(
    conn: Connection, run_id: str, *, phase: int, owner: str, now: datetime, until: datetime, most: int = 1
) -> list[Row]:
    """Take up to `most` free units (`unit`, `attempts`), or one that was tried before; none where none is free."""
    values = {"run": run_id, "phase": phase, "owner": owner, "now": now, "until": until}
    found = await rows(conn, _SQL["claim"], {**values, "tried": False, "most": most})
    found = found or await rows(conn, _SQL["claim"], {**values, "tried": True, "most": 1})
    return sorted(found, key=lambda unit: str(unit["unit"]))


async def renew(conn: Connection, run_id: str, *, owner: str, now: datetime, until: datetime) -> None:
    """Renew the leases an owner holds in a run, and the run's heartbeat."""
    await execute(conn, _SQL["renew"], {"run": run_id, "owner": owner, "until": until})
    await execute(conn, _SQL["beat"], {"run": run_id, "now": now})


@dataclass(frozen=True, slots=True)
class UnitProgress:
    """What a step of a unit came to, in events."""

    unit: str
    done: bool
    learned: int = 0
    nothing: int = 0
    deferred: int = 0
    dead: int = 0


async def record(conn: Connection, run_id: str, steps: Sequence[UnitProgress], *, owner: str) -> bool:
    """Add steps' counts to their units; False where one is no longer ours, and the caller must commit nothing."""
    values = [{"run": run_id, "owner": owner, **asdict(step)} for step in steps]
    return await execute_each(conn, _SQL["record"], values) == len(values)


async def account(
    conn: Connection, run_id: str, unit: str, *, learned: int = 0, nothing: int = 0, dead: int = 0
) -> None:
    """Add what was done for a unit by hand, which nobody claimed."""
    values = {"run": run_id, "unit": unit, "learned": learned, "nothing": nothing, "dead": dead}
    await execute(conn, _SQL["account"], values)


async def give_back(
    conn: Connection, run_id: str, unit: str, *, owner: str, most: int = 0, error: str | None = None
) -> str | None:
    """Return a unit for another try; with an error it counts as one, and the last ends it. Returns its status."""
    values = {
        "run": run_id,
        "unit": unit,
        "owner": owner,
        "most": most,
        "error": None if error is None else escape(error),
        "spent": error is not None,
    }
    found = await row(conn, _SQL["give_back"], values)
    return None if found is None else str(found["status"])


async def bury(conn: Connection, run_id: str, unit: str, *, events: int) -> None:
    """Count what a dead unit leaves unlearned."""
    await execute(conn, _SQL["bury"], {"run": run_id, "unit": unit, "events": events})


async def remark(conn: Connection, run_id: str, unit: str, told: str | None) -> None:
    """Leave a remark on a unit: what a merge changed."""
    await execute(conn, _SQL["remark"], {"run": run_id, "unit": unit, "told": None if told is None else escape(told)})


async def waiting(conn: Connection, run_id: str, *, phase: int, most: int | None = None) -> int:
    """Return how many units of a phase have not ended; no more are counted than `most`."""
    found = await row(conn, _SQL["waiting"], {"run": run_id, "phase": phase, "most": most})
    assert found is not None
    return int(found["waiting"])


async def totals(conn: Connection, run_id: str) -> Row:
    """Return a run's units and the sums of what they saw, learned, and left."""
    found = await row(conn, _SQL["totals"], {"run": run_id})
    assert found is not None
    return found


async def enter(conn: Connection, job: str) -> bool:
    """Begin a job that one replica does alone, until `leave` or the end of the connection; say whether we may."""
    found = await row(conn, _SQL["enter"], {"job": job})
    return found is not None and bool(found["entered"])


async def leave(conn: Connection, job: str) -> None:
    """Let the next replica in."""
    await execute(conn, _SQL["leave"], {"job": job})


async def finish(
    conn: Connection,
    run_id: str,
    *,
    status: str,
    now: datetime,
    report: dict[str, Any],
    error: str | None = None,
    died: bool = False,
) -> bool:
    """End a run, once; say whether it was us."""
    values = {
        "run": run_id,
        "status": status,
        "now": now,
        "report": Jsonb(report, dumps=dumps),
        "error": None if error is None else escape(error),
        "died": died,
    }
    return await execute(conn, _SQL["finish"], values) == 1


async def listing(conn: Connection, *, job: str | None = None, limit: int = 20) -> list[Row]:
    """Return runs with their sums, the latest first."""
    return await rows(conn, _SQL["listing"], {"job": job, "limit": limit})


async def units(conn: Connection, run_id: str, *, limit: int = 200) -> list[Row]:
    """Return a run's units, those that have not ended well first."""
    return await rows(conn, _SQL["units"], {"run": run_id, "limit": limit})


async def dead_letters(
    conn: Connection, *, word: str | None = None, settled_too: bool = False, limit: int = 200
) -> list[Row]:
    """Return dead letters, all open ones or those of one id or run."""
    return await rows(conn, _SQL["dead_letters"], {"id": word, "all": settled_too, "limit": limit})


async def dead_letter(
    conn: Connection, run_id: str, *, session: str, seq: int, extractor: str, error: str, now: datetime
) -> None:
    """Set an event aside that could not be learned from."""
    values = {
        "id": str(ULID()),
        "run": run_id,
        "session": session,
        "seq": seq,
        "extractor": extractor,
        "error": escape(error),
        "now": now,
    }
    await execute(conn, _SQL["dead_letter"], values)


async def settle_dead_letters(
    conn: Connection, *, session: str, seqs: Sequence[int], settlement: str, now: datetime
) -> None:
    """Mark dead letters as settled."""
    values = {"session": session, "seqs": list(seqs), "settlement": settlement, "now": now}
    await execute(conn, _SQL["settle"], values)


async def leased_by(conn: Connection, run_id: str) -> list[str]:
    """Return who holds units of a run."""
    return [r["owner"] for r in await rows(conn, _SQL["leased_by"], {"run": run_id})]


async def held(conn: Connection, run_id: str, units: Sequence[str], *, owner: str) -> set[str]:
    """Return which of some units an owner still holds."""
    found = await rows(conn, _SQL["held"], {"run": run_id, "units": list(units), "owner": owner})
    return {one["unit"] for one in found}


async def release(conn: Connection, run_id: str, *, owner: str, spent: bool = True) -> int:
    """Free all that an owner holds; return how many units. With `spent` it died over them, and that was a try."""
    return await execute(conn, _SQL["release"], {"run": run_id, "owner": owner, "spent": spent})


async def remarks(conn: Connection, run_id: str) -> dict[str, str]:
    """Return the remarks on a run's units, by unit."""
    return {r["unit"]: r["note"] for r in await rows(conn, _SQL["remarks"], {"run": run_id})}


async def interrupt(conn: Connection, run_id: str, *, now: datetime) -> None:
    """Mark a run as cut short, unless a unit of it is leased; whoever comes next takes it up."""
    await execute(conn, _SQL["interrupt"], {"run": run_id, "now": now})


async def begin_anew(conn: Connection, run_id: str, *, job: str, now: datetime) -> None:
    """Give up the runs of a job that were cut short, since this one begins from the beginning."""
    await execute(conn, _SQL["begin_anew"], {"run": run_id, "job": job, "now": now})


async def give_up(conn: Connection, *, since: datetime, now: datetime, jobs: Sequence[str]) -> None:
    """End runs of some jobs beside the schedule that were not heard of since a moment; mark others as cut short."""
    await execute(conn, _SQL["give_up"], {"since": since, "now": now, "jobs": list(jobs)})
