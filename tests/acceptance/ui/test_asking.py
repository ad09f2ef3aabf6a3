"""What a person asks of memory and says to it on the page: a real browser on a real service."""

from __future__ import annotations

from pathlib import Path

import psycopg
from playwright.sync_api import Page, expect

from tests.acceptance.api.server import ApiServer, wait_for
from tests.acceptance.ui.conftest import check_looks


def ask(person: Page, served: ApiServer, question: str) -> None:
    """Ask as a person does."""
    person.goto(f"{served.address}/ui/recall")
    person.get_by_label("Question").fill(question)
    person.get_by_role("button", name="Ask").click()


def test_an_answer_is_the_agents_and_each_line_says_why(person: Page, served: ApiServer) -> None:
    question = "What is the release branch called?"
    ask(person, served, question)
    with served.client() as client:
        block = client.get("/recall", params={"query": question}).json()["block"]
    assert person.locator("pre.block").inner_text().strip() == block.strip()
    lines = person.get_by_role("region", name="Why each line is in it").locator("ol > li")
    assert lines.count() == block.count("\n- ")
    expect(lines.first.locator("mark", has_text="release")).to_be_visible()  # as it was asked, not its stem
    expect(lines.first).to_contain_text("words of a fact")
    lines.first.locator("summary").click()
    expect(lines.first.locator("meter").first).to_be_visible()
    check_looks(person, "recall-answer")


def test_looking_at_an_answer_counts_nothing_as_recalled(person: Page, served: ApiServer) -> None:
    def count() -> int:
        with served.client() as client:
            (fact,) = client.get("/facts", params={"query": "trunk"}).json()["facts"]
            return int(fact["recalled"])

    before = count()
    ask(person, served, "What is the release branch called?")
    expect(person.locator("pre.block")).to_contain_text("trunk")
    assert count() == before


def test_what_the_floor_refuses_is_shown_with_the_reason(person: Page, served: ApiServer) -> None:
    ask(person, served, "Which branch of mathematics did Gauss study in Göttingen as a young professor?")
    expect(person.locator("pre.block")).to_have_count(0)
    expect(person.get_by_text("Nothing known")).to_be_visible()
    refused = person.get_by_role("region", name="Found, and refused")
    expect(refused.locator("ol > li").first).to_contain_text("below the floor")
    check_looks(person, "recall-refused")
    ask(person, served, "zzzzqqqq")
    expect(person.get_by_text("Use other words")).to_be_visible()
    person.goto(f"{served.address}/ui/recall?query=branch&tokens=many")
    expect(person.locator("h1")).to_have_text("This cannot be done")


def make_waiting_call(served: ApiServer, key: str) -> str:
    """Return the id of a session in which a call waits for a person."""
    session = served.open_session(key, tools=["publish"])
    with served.client() as client:
        client.post(f"/sessions/{session}/messages", json={"text": "Please publish it."}).raise_for_status()
        wait_for(client, f"/sessions/{session}", lambda found: bool(found["attention"]))
    return session


def answers_of(served: ApiServer, session: str) -> str:
    """Return what the agent said as soon as it said how its call went."""
    with served.client() as client:
        path = f"/sessions/{session}/events?limit=100"

        def has_ended(found: dict[str, object]) -> bool:
            return "It says" in str(found)

        return str(wait_for(client, path, has_ended))


def test_a_granted_call_runs_and_the_agent_goes_on(person: Page, served: ApiServer) -> None:
    session = make_waiting_call(served, "main:web:grant")
    person.goto(f"{served.address}/ui/today?days=30")
    badge = person.get_by_role("link", name="wait for your word")
    badge.click()
    person.wait_for_url("**/ui/attention")
    waiting = int(badge.inner_text().split()[0])
    expect(person.get_by_role("heading", name="publish: may it run?")).to_be_visible()
    assert "<b>the \ufffd site</b>" in person.locator(".arguments").first.inner_text()
    check_looks(person, "attention-call")
    person.get_by_role("button", name="Grant").click()
    expect(person.get_by_role("status")).to_contain_text("goes on by itself")
    expect(badge).to_contain_text(f"{waiting - 1} wait")
    assert "published <b>the" in answers_of(served, session)
    expect(person.get_by_role("button", name="Grant")).to_have_count(0)


def test_a_denied_call_tells_the_agent_why(person: Page, served: ApiServer) -> None:
    session = make_waiting_call(served, "main:web:deny")
    person.goto(f"{served.address}/ui/attention")
    person.get_by_label("Why not").fill("Not on a Friday.")
    person.get_by_role("button", name="Deny").click()
    expect(person.get_by_role("status")).to_contain_text("Denied")
    answered = answers_of(served, session)
    assert "Not on a Friday." in answered
    assert "published <b>" not in answered
    person.goto(f"{served.address}/ui/attention")
    expect(person.get_by_text("No call and no statement waits.")).to_be_visible()


WAITING = """
insert into candidate (id, agent, project, level, owner, subject, predicate, value, sentence, kind, confidence, trust,
                       session_id, seq, occurred_at, quote, extractor, quarantined, reconciled, run_id)
values ('waiting', 'reviewed', '/srv/shop', 'project', '/srv/shop', 'port', 'is', '8443', 'Their port is 8443.',
        'environment', 'explicit', 'tool', 'ada-0', 1, now(), 'port 8443', 'rules:1', 'a tool said it', true, '')"""


def test_a_review_is_taken_back(person: Page, served: ApiServer) -> None:
    with psycopg.connect(served.dsn) as conn:
        conn.execute(WAITING)
    person.goto(f"{served.address}/ui/attention")
    person.get_by_role("button", name="Reject").click()
    expect(person.get_by_role("button", name="Reject")).to_have_count(0)
    person.get_by_role("button", name="Undo").click()
    person.get_by_role("button", name="Accept").click()
    expect(person.locator("h1")).to_have_text("Their port is 8443.")
    with served.client() as client:
        assert len(client.get("/facts", params={"query": "8443"}).json()["facts"]) == 1
        person.get_by_role("button", name="Undo").click()
        expect(person.get_by_role("button", name="Undo")).to_be_visible()  # which is believing it again
        assert client.get("/facts", params={"query": "8443"}).json()["facts"] == []


def test_two_sessions_stand_side_by_side(person: Page, served: ApiServer) -> None:
    with served.client() as client:
        found = {each["key"]: each["id"] for each in client.get("/sessions?limit=100").json()["sessions"]}
    person.goto(f"{served.address}/ui/compare")
    person.get_by_label("Session").fill(found["main:web:grant"])
    person.get_by_label("Compared with").fill(found["main:web:deny"])
    person.get_by_role("button", name="Compare").click()
    differing = person.locator(".differs")
    expect(differing.filter(has_text="published <b>the").first).to_be_visible()
    expect(differing.filter(has_text="Not on a Friday.").first).to_be_visible()
    check_looks(person, "compare-two")
    person.goto(f"{served.address}/ui/compare?left={found['main:web:grant']}")
    expect(person.get_by_text("came of no other")).to_be_visible()
    file = served.home / "bundle.json"
    file.write_text("{}")
    person.goto(f"{served.address}/ui/compare?left={file}&right={found['main:web:deny']}")
    expect(person.locator("h1")).to_have_text("There is nothing here")  # never a file of this machine


def test_a_branch_stands_beside_what_it_came_from(person: Page, served: ApiServer) -> None:
    session = served.open_session("main:web:branched")
    with served.client() as client:
        client.post(f"/sessions/{session}/messages", json={"text": "Hello."}).raise_for_status()
        wait_for(client, f"/sessions/{session}", lambda found: found["activity"] == "idle")
        asked = {"kind": "sim", "message": "What is the release branch?"}
        branch = client.post(f"/sessions/{session}/branch", json=asked).raise_for_status().json()["id"]
        wait_for(client, f"/sessions/{branch}/events", lambda found: "called trunk" in str(found))
    person.goto(f"{served.address}/ui/compare")
    person.get_by_label("Session").fill(branch)
    person.get_by_role("button", name="Compare").click()
    expect(person.locator(".differs").filter(has_text="It is called trunk.").first).to_be_visible()


def test_an_uncertain_call_is_settled_and_the_agent_reads_it(person: Page, served: ApiServer) -> None:
    session = served.open_session("main:web:settle", tools=["transfer"])
    with served.client() as client:
        client.post(f"/sessions/{session}/messages", json={"text": "Please transfer it."}).raise_for_status()
        wait_for(client, f"/sessions/{session}/events", lambda found: "the money" in str(found))
        person.goto(f"{served.address}/ui/sessions/{session}")
        person.get_by_role("button", name="Stop", exact=True).click()
        wait_for(client, f"/sessions/{session}", lambda found: bool(found["attention"]))
        person.goto(f"{served.address}/ui/attention")
        expect(person.get_by_role("heading", name="transfer: did it run?")).to_be_visible()
        person.get_by_role("button", name="It did not").click()
        expect(person.get_by_role("status")).to_contain_text("Settled")
        shown = client.get(f"/sessions/{session}/context").json()
    assert "a person found out how call" in str(shown)
    person.goto(f"{served.address}/ui/attention")
    expect(person.get_by_text("transfer: did it run?")).to_have_count(0)


def test_a_dismissed_rule_is_proposed_no_more(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/rules?project=/srv/other")
    expect(person.locator("main .entry").first).to_contain_text("read @docs/b.md in full")
    person.get_by_role("button", name="Dismiss").click()
    person.goto(f"{served.address}/ui/rules?project=/srv/other")
    expect(person.get_by_text("Nothing is proposed.")).to_be_visible()


def test_a_rule_is_accepted_and_stands_in_the_difference(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/rules")
    proposal = person.locator("main .entry").first
    project = proposal.locator(".owner bdi").nth(1).inner_text()
    expect(proposal).to_contain_text("ok, read @docs/b.md in full please")
    proposal.get_by_label("In your words").fill("Read a file in full before you change it.")
    check_looks(person, "rules-proposed")
    proposal.get_by_role("button", name="Accept").click()
    expect(person.locator("h1")).to_have_text("Read a file in full before you change it.")
    person.goto(f"{served.address}/ui/projects?project={project}")
    expect(person.locator("ins", has_text="Read a file in full before you change it.").first).to_be_visible()
    expect(person.get_by_role("heading", name="Rules that people repeat here")).to_have_count(0)
    check_looks(person, "project-rules")
    assert not (Path(project) / "AGENTS.md").exists()  # a look writes nothing


def test_a_rule_is_accepted_for_every_project(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/rules?project=/srv/shop")
    proposal = person.locator("main .entry").first
    proposal.get_by_label("In your words").fill("Greet whoever writes.")
    proposal.get_by_label("in every project of").check()
    proposal.get_by_role("button", name="Accept").click()
    expect(person.locator("h1")).to_have_text("Greet whoever writes.")
    expect(person.locator("main .owner").first).not_to_contain_text("/srv/shop")


def test_the_system_is_shown_without_secrets(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/system")
    settings = person.get_by_role("region", name="All settings")
    expect(settings.get_by_role("row", name="openai_api_key")).to_contain_text("**********")
    expect(settings.get_by_role("row", name="openai_api_key")).to_contain_text("CONSOLIDATOR_OPENAI_API_KEY")
    expect(settings.get_by_role("row", name="workers")).to_contain_text("default")
    night = person.get_by_role("region", name="Checks").get_by_role("row", name="last night").locator("time")
    assert str(night.get_attribute("title")).endswith("UTC")  # and what is read is in the reader's zone
    text = person.content()
    assert served.owners_token not in text
    assert "stand-in" not in text
    assert "://" not in served.dsn or served.dsn not in text
    check_looks(person, "system-all")
