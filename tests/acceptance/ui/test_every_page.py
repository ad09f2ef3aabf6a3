"""Every page with what a hostile log holds, and a rerun beside what it repeats: a real browser on a real service."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
from playwright.sync_api import Page, expect

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.store.nights import runs
from consolidator.testing import ScriptedReply
from tests.acceptance.api.server import ApiServer, answer_models, use_model, wait_for
from tests.acceptance.browser import check_page
from tests.acceptance.ui.conftest import MARKUP, service_environment
from tests.conftest import NOON
from tests.support import log_events, run_cli, user_message

HOSTILE = MARKUP + "\x07 \u200b\u2066 " + "long" * 3000
CANDIDATE = """
insert into candidate (id, agent, project, level, owner, subject, predicate, value, sentence, kind, confidence, trust,
                       session_id, seq, occurred_at, quote, extractor, quarantined, reconciled, run_id)
values (%(id)s, %(agent)s, %(project)s, 'project', %(project)s, %(words)s, 'instruction', %(words)s, %(words)s,
        'constraint', 'explicit', 'user', %(session)s, 1, now(), %(quote)s, 'rules:1', %(quarantined)s, true, '')"""
PROCEDURE = """
insert into procedure (id, agent, title, body, support, worth, rank, learned_at, updated_at, audience, cause)
values ('procedure_odd', %(words)s, %(words)s, %(body)s, 3, 1, 1, now(), now(), 'all', 'person')"""
SOLUTION = """
insert into solution (id, agent, tool, fingerprint, headline, body, search, sessions, occurrences, learned_at,
                      updated_at, audience, cause)
values ('solution_odd', %(words)s, %(words)s, 'f|odd', %(words)s, %(body)s, 'x', 1, 1, now(), now(), 'all', 'person')"""
CLEAN = """
delete from candidate where id like 'odd%'; delete from procedure where id = 'procedure_odd';
delete from solution where id = 'solution_odd'; delete from dead_letter where extractor like '%img%';
delete from claim where unit like '%img%'; delete from run where error like '%img%'"""


def make_hostile_rows(served: ApiServer) -> str:
    """Put what deceives into every place that a log, a tool or a model reaches; return the id of a run."""

    async def work(database: Database) -> str:
        for number in range(3):
            await log_events(database, f"odd-{number}", [user_message(HOSTILE)], agent=MARKUP, project=MARKUP)
        then = NOON - timedelta(days=30)
        async with database.transaction() as conn:
            run = await runs.start(conn, job="consolidation", scheduled_at=then, trigger="schedule", owner="", now=then)
            await runs.add_units(conn, run.id, "session", [MARKUP])
            await runs.add_dead_letters(conn, run.id, session="odd-0", failures={1: f"{MARKUP}: {HOSTILE}"}, now=then)
            await runs.finish(conn, run.id, status="failed", now=then, report={}, error=HOSTILE)
        return run.id

    with ThreadPoolExecutor() as threads:  # an event loop runs in this one
        run_id = threads.submit(served.run, work, FrozenClock(NOON + timedelta(hours=1))).result()
    argument = {"path": MARKUP, "text": MARKUP, "kind": "free", "step": 0, "precision": 1, "n": 1}
    steps = [{"tool": MARKUP, "command": "", "repeats": False, "arguments": [argument]} for _ in range(2)]
    evidence = [["odd-0", 1, MARKUP[:60]]]
    procedure = {
        "success": {"alpha": 3, "beta": 1, "mean": 0.75, "basis": MARKUP},
        "steps": steps,
        "evidence": evidence,
    }  # fmt: skip
    quote = {"session_id": "odd-0", "seq": 1, "quote": HOSTILE, "occurred_at": MARKUP}
    fix = {
        "description": HOSTILE, "worked": 1, "confirmed": True, "sessions": 1, "failing": MARKUP, "resolving": MARKUP,
        "steps": [{"symbol": MARKUP, "argument": MARKUP}], "evidence": [quote],
    }  # fmt: skip
    solution = {"line": HOSTILE, "fixes": [fix], "tried": [HOSTILE], "evidence": [quote]}
    with psycopg.connect(served.dsn) as conn:
        for number in range(3):
            words = {"words": "Always run " + MARKUP, "agent": MARKUP, "project": MARKUP, "quarantined": None}
            conn.execute(CANDIDATE, {**words, "id": f"odd{number}", "session": f"odd-{number}", "quote": MARKUP[:60]})
        waits = {**words, "id": "oddwaits", "session": "odd-0", "quote": MARKUP, "quarantined": HOSTILE}
        conn.execute(CANDIDATE, {**waits, "words": HOSTILE})
        conn.execute(PROCEDURE, {"words": MARKUP, "body": json.dumps(procedure)})
        conn.execute(SOLUTION, {"words": MARKUP, "body": json.dumps(solution)})
    return run_id


def test_what_a_log_holds_is_text_on_every_page(person: Page, served: ApiServer) -> None:
    try:
        run_id = make_hostile_rows(served)
        lists = ("rules", "nights", "attention", "facts", "solutions", "procedures", "today?days=30")
        shown = ("odd0", "oddwaits", "procedure_odd", "solution_odd")
        others = ("procedures/procedure_odd", "solutions/solution_odd", "sessions/odd-0?at=1", f"nights/{run_id}")
        answers = ("recall?query=onerror+img+tests", "sessions?query=onerror+img+tests")
        person.set_viewport_size({"width": 360, "height": 900})
        for path in (*lists, *(f"memory/{name}" for name in shown), *others, *answers):
            check_is_text(person, served, path)
            check_page(person, path)
    finally:
        person.set_viewport_size({"width": 1280, "height": 900})
        with psycopg.connect(served.dsn) as conn:
            conn.execute(CLEAN)


def check_is_text(person: Page, served: ApiServer, path: str) -> None:
    """Check that a page shows markup as text, and marks what nobody sees."""
    answer = person.goto(f"{served.address}/ui/{path}")
    assert answer is not None
    assert (answer.status, len(answer.body()) < 200_000) == (200, True), path
    assert "onerror=alert" in str(person.locator("main").text_content()), path
    assert person.locator("main img, main script, main b, main i").count() == 0, path
    assert not set(person.content()) & {"\u202e", "\u2066", "\u200b", "\x07"}, path
    assert person.title() != "pwned", path


def test_a_rerun_stands_beside_what_it_repeats(person: Page, served: ApiServer) -> None:
    session = served.open_session("main:web:repeated")
    with served.client() as client:
        client.post(f"/sessions/{session}/messages", json={"text": "What is the release branch?"}).raise_for_status()
        wait_for(client, f"/sessions/{session}/events", lambda found: "called trunk" in str(found))
    with answer_models(lambda _: ScriptedReply(text="It is called main.")) as models:
        environment = service_environment(served) | use_model(models)
        rerun = json.loads(run_cli("session", "rerun", session, "--json", environment=environment).stdout)["session"]
    person.goto(f"{served.address}/ui/sessions/{rerun}")
    person.get_by_role("link", name="Compare it with what it came from").click()
    left, right = person.locator(".pair .differs").all()[:2]
    expect(left).to_contain_text("It is called trunk.")
    expect(right).to_contain_text("It is called main.")
