"""A database for the page: a long log that a night learned from, and memory of many nights written by SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.synthetic_sessions import AGENTS, PROJECTS
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.indexing.indexer import index_facts
from consolidator.jobs.nightly import JobRunner
from consolidator.settings import Settings
from consolidator.store.calls.scopes import lock_agents

LENGTH = 60  # events of a session
DAYS = 14  # in which the log was written
LEARNED = 2000  # sessions that a night learned from, the first ones: the pages do not read what it leaves
AS_STATED: LiteralString = "(array['user', 'user', 'user', 'agent', 'tool'])[1 + n %% 5]"
KINDS: LiteralString = (
    "(array['preference', 'profile', 'environment', 'project', 'decision', 'constraint', 'relation'])[1 + n %% 7]"
)
OWNED: LiteralString = f"""'coder-' || n %% {AGENTS},
       case when n %% 3 = 0 then '/home/ada/work/project-' || n %% {PROJECTS} end,
       case when n %% 3 = 1 then 'person-' || n %% 40 end, (array['project', 'peer', 'agent'])[1 + n %% 3]"""
SENTENCE: LiteralString = """'The project number ' || n || ' uses tool' || n %% 5000 || ' for its nightly build, '
       || (array['on every branch', 'on release branches', 'when the tests pass', 'with caches'])[1 + n %% 4]"""
SAID_AT: LiteralString = "%(now)s - n %% 300 * interval '1 day' - n * interval '1 second'"
CANDIDATES: LiteralString = f"""
insert into candidate (id, agent, project, peer, level, owner, subject, predicate, value, sentence, kind, confidence,
                       trust, session_id, seq, occurred_at, quote, extractor, single_valued, evidence, revision,
                       quarantined, active, reconciled, run_id)
select 'candidate_' || n, {OWNED}, coalesce(
           case when n %% 3 = 0 then '/home/ada/work/project-' || n %% {PROJECTS} end,
           case when n %% 3 = 1 then 'person-' || n %% 40 end, ''),
       'subject ' || n, case when n %% 25 = 3 then 'instruction' else 'uses' end,
       case when n %% 25 = 3 then 'run the check ' || n %% 300 else 'tool' || n %% 5000 end,
       {SENTENCE}, {KINDS}, 'explicit', {AS_STATED}, 'made-' || lpad((n %% %(sessions)s)::text, 7, '0'), 1,
       {SAID_AT}, {SENTENCE}, 'statements:1', true, '[]', 0, case when n %% 50 = 7 then 'a tool said it' end, true,
       true, 'run'
from generate_series(1, %(facts)s) as n"""
FACTS: LiteralString = f"""
insert into fact (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                  valid_from, recorded_at, sessions, evidence, run_id, last_recalled_at, superseded_at, superseded_by,
                  superseded_reason, valid_to, flagged)
select 'fact_' || n, {OWNED}, 'subject ' || n / 4 * 4, 'uses', 'tool' || n %% 5000, {SENTENCE}, {KINDS}, 'explicit',
       {AS_STATED}, {SAID_AT}, {SAID_AT}, 1 + (n %% 97) / 20, array['candidate_' || n], 'run',
       case when n %% 11 = 0 then %(now)s - n %% 90 * interval '1 day' end,
       case when n %% 10 = 1 then %(now)s - n %% 200 * interval '1 day' end,
       case when n %% 10 = 1 then 'fact_' || n + 3 end, case when n %% 10 = 1 then 'replaced' end,
       case when n %% 10 = 1 then %(now)s - n %% 200 * interval '1 day' end,
       case when n %% 500 = 2 then 'it resembles another' end
from generate_series(1, %(facts)s) as n"""
VERSIONS: LiteralString = """
insert into fact_version (fact_id, until, value, sentence, valid_from)
select id, recorded_at + interval '1 day', value, sentence || ' (before)', valid_from from fact
where hashtext(id) %% 5 = 0"""
PROCEDURES: LiteralString = """
insert into procedure (id, agent, project, title, support, rank, worth, body, learned_at, updated_at, run_id, audience)
select p.id || '_' || n, agent, project, title || ' ' || n, support, rank, worth + n / 100.0, body, learned_at,
       %(now)s - n * interval '1 minute', run_id, audience
from (select * from procedure order by worth desc, id limit 40) p, generate_series(1, %(facts)s / 2000) as n"""
SOLUTIONS: LiteralString = """
insert into solution (id, agent, project, tool, fingerprint, headline, search, body, confirmed, sessions, occurrences,
                      learned_at, updated_at, run_id, audience)
select s.id || '_' || n, agent, project, tool, fingerprint || n, headline || ' ' || n, search || ' ' || n, body,
       confirmed, sessions, occurrences + n, learned_at, %(now)s - n * interval '1 minute', run_id, audience
from (select * from solution order by sessions desc, id limit 40) s, generate_series(1, %(facts)s / 2000) as n"""
RUNS: LiteralString = """
insert into run (id, job, scheduled_at, status, started_at, finished_at, heartbeat_at, owner, report)
select 'run_' || n, (array['consolidation', 'retention', 'import'])[1 + n %% 3], at, 'done', at,
       at + interval '5 minutes', at, 'me',
       '{"seen": 9000, "learned": 500, "nothing": 8500, "deferred": 0, "dead": 0, "units": 40, "sessions": 40}'
from (select n, %(now)s - (n + 2) * interval '8 hours' as at from generate_series(1, 1200) as n) r"""
LETTERS: LiteralString = """
insert into dead_letter (id, run_id, session_id, seq, extractor, error, created_at)
select 'letter_' || n, r.id, 'made-' || lpad((n %% %(sessions)s)::text, 7, '0'), n, 'facts', 'it broke', %(now)s
from generate_series(1, 300) as n,
     (select id from run where job = 'consolidation' order by started_at desc limit 1) r"""
INJECTIONS: LiteralString = """
insert into injection (id, session_id, agent, moment, cited, tokens, fix, outcome, created_at)
select 'injection_' || n, 'made-' || lpad((n %% %(sessions)s)::text, 7, '0'), 'coder-0',
       (array['failure', 'prompt', 'session_start'])[1 + n %% 3], array['fact:fact_' || n], 90,
       case when n %% 3 = 0 then '{"description": "npm install"}' else '{}' end::jsonb,
       (array['worked', 'failed', 'not_tried'])[1 + n %% 3], %(now)s - n * interval '5 minutes'
from generate_series(1, %(facts)s) as n"""
SPEND: LiteralString = """
insert into spend (call_id, session_id, purpose, model, day, cost, input_tokens, reserved_at, settled_at)
select 'call_' || n, 'made-' || lpad((n %% %(sessions)s)::text, 7, '0'), 'step', 'a-model',
       (%(now)s - n * interval '10 minutes')::date, 0.01, 2000, %(now)s, %(now)s
from generate_series(1, %(facts)s) as n"""
WAITING: LiteralString = """
update session set attention = jsonb_build_object('call_' || id, jsonb_build_object(
    'kind', 'approval', 'tool', 'publish', 'arguments', '{"what": "the site"}'))
where id in (select id from session order by id desc limit least(200, %(sessions)s / 4))"""


@dataclass(frozen=True, slots=True)
class PageData:
    """How much there is to look at."""

    events: int
    facts: int
    long_session: int  # events of one session, beside the short ones

    @property
    def sessions(self) -> int:
        """How many short sessions there are."""
        return (self.events - self.long_session) // LENGTH


async def fill(database: Database, clock: FrozenClock, settings: Settings, data: PageData, *, until: datetime) -> None:
    """Write the log day by day, with a night after its first part, and add what many nights would have learned."""
    clock.set(until - timedelta(days=DAYS + 1))
    learned = min(data.sessions, LEARNED)
    await _write_log(database, clock, data, range(learned))
    async with database.connection() as conn:
        await conn.execute("analyze")
    await JobRunner(database, settings).run_now("consolidation")
    await _write_log(database, clock, data, range(learned, data.sessions))
    for name in ("long", "long-too"):
        async with database.transaction(flushed=False) as conn:
            number, length = data.sessions, data.long_session
            await synthetic_sessions.write_session(conn, number, length, now=clock.now(), name=name)
    clock.set(until)
    await add_memory(database, data, until=until)


async def _write_log(database: Database, clock: FrozenClock, data: PageData, numbers: range) -> None:
    for number in numbers:
        if number and number % max(data.sessions // DAYS, 1) == 0:
            clock.advance(timedelta(days=1))
        async with database.transaction(flushed=False) as conn:
            await synthetic_sessions.write_session(conn, number, LENGTH, now=clock.now())


async def add_memory(database: Database, data: PageData, *, until: datetime) -> None:
    """Write what many nights would have learned, as if the latest of them ended at a moment."""
    values: dict[str, Any] = {"now": until, "facts": data.facts, "sessions": data.sessions}
    statements = (
        CANDIDATES, FACTS, VERSIONS, PROCEDURES, SOLUTIONS, RUNS, LETTERS, INJECTIONS, SPEND, WAITING,
    )  # fmt: skip
    for statement in statements:
        async with database.transaction(flushed=False) as conn:
            await conn.execute(statement, values)
    for number in range(AGENTS):
        async with database.transaction(flushed=False) as conn:
            await lock_agents(conn, [f"coder-{number}"])
            await index_facts(conn, f"coder-{number}")
    async with database.connection() as conn:
        await conn.execute("vacuum analyze")
