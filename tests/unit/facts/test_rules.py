"""What a person states outright becomes a candidate with its quote; what nobody stated does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.candidates import (
    ACCEPTED_EXTRACTOR,
    ENDINGS,
    Candidate,
    FactExtractor,
    Proposals,
    SessionContext,
    is_quote_in,
)
from consolidator.memory.facts.endings import find_ending
from consolidator.memory.facts.instructions import find_instruction, find_wishes, group_orders, is_same_order
from consolidator.memory.facts.questions.model_extraction import read_facts
from consolidator.memory.facts.questions.session_lines import transcript_lines
from consolidator.memory.facts.questions.transcript import TranscriptChunk
from consolidator.memory.facts.reconcile import reconcile_candidates
from consolidator.memory.facts.rule_extraction import MAX_CANDIDATES, MAX_REJECTED, propose_candidates
from consolidator.memory.text.pasted import BLANK, split_quoted
from consolidator.memory.text.sentences import split_sentences
from consolidator.models.audience import describe_peer
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.oracle import fact_json

NO_DEADLINE = settings(deadline=None)  # the machine may be busy
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
WORK = SessionContext("s1", "s1", "coder", project="/src/shop")
CHAT = SessionContext("s2", "s2", "service", peer="ada")
STRANGER = SessionContext("s3", "s3", "service")


def make_event(kind: EventType, seq: int = 1, **data: Any) -> Event:
    return Event("s1", seq, kind, data, NOW + timedelta(minutes=seq))


def propose_from(text: str, session: SessionContext = WORK, **data: Any) -> Proposals:
    return propose_candidates([make_event(EventType.USER_MESSAGE, text=text, **data)], session, redact)


def stated_in(text: str, session: SessionContext = WORK, **data: Any) -> list[Candidate]:
    """Return what a text states, without what it takes back and without orders that do not say that they last."""
    candidates = propose_from(text, session, **data).candidates
    return [candidate for candidate in candidates if candidate.predicate not in (*ENDINGS, "instruction")]


def only_candidate(text: str, session: SessionContext = WORK, **data: Any) -> Candidate:
    (candidate,) = stated_in(text, session, **data) or propose_from(text, session, **data).candidates
    return candidate


STATED = {
    "My name is Mario.": ("name", "Mario"),
    "my name is mario, nice to meet you": ("name", "mario"),
    "Hi, I'm Omar Rossi.": ("name", "Omar Rossi"),
    "Please call me Sam from now on.": ("name", "Sam"),
    "Sure, my user ID is mia_li_3668, and the reservation ID is XEWRD9.": ("user id", "mia_li_3668"),
    "I am amelia_davis_8890, but I don't remember the reservation ID.": ("user id", "amelia_davis_8890"),
    "my email is ada@example.com": ("email", "ada@example.com"),
    "I live in Vienna.": ("home", "Vienna"),
    "Answer in German please.": ("language of answers", "German"),
    "I prefer small commits.": ("prefers", "small commits"),
    "I generally prefer tabs over spaces.": ("prefers", "tabs over spaces"),
    "I generally like dark mode": ("like", "dark mode"),
    "save in memory: never touch the vendored files": ("rule", "never touch the vendored files"),
    "store this in your memory, not write comments unless I ask": ("rule", "not write comments unless I ask"),
    "My favorite language is Rust.": ("favorite language", "Rust"),
    "i would only want e2e tests for the API, anything else is noise.": None,
    "i would only want e2e tests, anything else is noise.": ("wants only", "e2e tests"),
    "Always run mix format before committing.": ("rule", "always run mix format before committing"),
    "ok and also, never commit directly to main.": ("rule", "never commit directly to main"),
    "you should never push without asking me": ("rule", "never push without asking me"),
    "If a test fails, always fix it before moving on.": ("rule", "if a test fails, always fix it before moving on"),
    "From now on, write tests first.": ("rule", "write tests first"),
    "Next time you changed the schema, let me run the migration.": (
        "rule",
        "next time you changed the schema, let me run the migration",
    ),
    "no need to ask, just run the tests from now on": ("rule", "no need to ask, just run the tests"),
    "Whenever you change the schema, run the migrations.": (
        "rule",
        "whenever you change the schema, run the migrations",
    ),
    "Please remember that the staging database is read-only.": ("remember", "the staging database is read-only"),
    "can you remember that I use zsh?": ("remember", "I use zsh"),
    "We use pnpm, not npm.": ("uses", "pnpm"),
    "We use uv for package management.": ("uses for package management", "uv"),
    "We decided to drop Windows support.": ("decided", "drop Windows support"),
    "No, the default branch is `develop`.": ("default branch", "`develop`"),
    "Actually, use pytest instead of unittest.": ("instead of unittest", "pytest"),
    "It's called handgemacht, not handmade.": ("not handmade", "handgemacht"),
    "I live in Vienna, Austria, and work at Siemens.": ("home", "Vienna, Austria"),
    "I live in New York with my dog": ("home", "New York"),
    "I'm based in Bern, I'm a nurse.": ("home", "Bern"),
    "I am mia_li_3668, Mia Li.": ("user id", "mia_li_3668"),
    "my user id is mia.li_3668.": ("user id", "mia.li_3668"),
}

NOT_STATED = [
    "I live in Berlin no longer.",
    "I live in Vienna, Austria no longer.",
    "I'm based in Berlin half the year",
    "I am mia_li_3668's mother",
    "I'm john_doe_12 friend",
    "my user id is mia_li_3668's",
    "I'm Very Angry.",
    "This is Bad News.",
    "Should we always use tabs?",
    "why do we use npm here?",
    "If we use pnpm, does it work?",
    "maybe we should always validate",
    "I guess I prefer tabs",
    "I prefer this one.",
    "I'd prefer the cheapest flight",
    "we use it in the header",
    "Currently we use jenkins",
    "For now, use sqlite.",
    "never mind",
    "I never said that",
    "why do you never read the file",
    "you always do this wrong",
    "it never works",
    "Please don't delete that file.",
    "don't push yet",
    "Let's go with option 2",
    "let's go with that",
    "also remember the @docs/refactor.md file btw.",
    "remember that, lets start with the parser",
    "remember, let's keep it simple for the parser",
    "save in memory what we found out",
    "I don't remember my password",
    "call me back later",
    "I'm sorry, but I don't have it",
    "No, the tests are failing",
    "it's failing, not passing",
    "We're on the same page",
    "We're on May 17",
    "i like that idea",
    "I love how this looks",
    'He said "always use tabs" but I disagree',
    "> always use tabs",
    "```\nalways use tabs\n```",
    "<rules>\nalways use tabs\n</rules>",
    "2026-03-01T10:00:00 always use tabs",
    "I really want to know how many bags are allowed if I am a gold member.",
    "I'm pretty sure I'm a gold member, but not certain.",
    "my name is misspelled",
    "my email is not working",
    "every time you run this, it fails",
    "You are a careful reviewer. Always answer in JSON.",
]


@pytest.mark.parametrize("text", [text for text, fact in STATED.items() if fact])
def test_what_is_stated_is_proposed_with_its_quote(text: str) -> None:
    candidate = only_candidate(text)
    assert (candidate.predicate, candidate.value) == STATED[text]
    assert is_quote_in(candidate.quote, text)
    assert (candidate.confidence, candidate.trust, candidate.extractor) == ("explicit", "user", "rules:1")
    assert candidate.sentence[0].isupper()
    assert candidate.sentence.endswith(".")


@pytest.mark.parametrize("text", NOT_STATED)
def test_what_nobody_stated_is_not_proposed(text: str) -> None:
    assert stated_in(text) == []


def test_a_liking_in_a_task_is_told_from_two_sessions_and_at_once_if_said_in_general() -> None:
    assert only_candidate("I don't like wide sidebars").confidence == "inferred"
    assert only_candidate("In general, I don't like wide sidebars").confidence == "explicit"
    assert only_candidate("I don't like early meetings", CHAT).confidence == "explicit"


def test_what_the_named_things_use_is_not_what_work_is_wanted_with() -> None:
    assert find_wishes("document the limits for all services using grpc gateway") == []
    assert find_wishes("document the limits using grpc gateway") == ["use grpc gateway"]


def test_what_is_said_of_work_is_told_in_its_own_words() -> None:
    assert only_candidate("you should never push without asking me").sentence == "Never push without asking me."
    assert only_candidate("Remember that our API is slow.").sentence == "Our API is slow."
    assert only_candidate("From now on, use tabs.").sentence == "Use tabs."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("I live in the US.", "The user lives in the US."),
        ("I prefer I/O bound benchmarks.", "The user prefers I/O bound benchmarks."),
        ("I love World War I documentaries.", "The user loves World War I documentaries."),
    ],
)  # fmt: skip
def test_only_what_stands_for_a_person_is_told_of_them(text: str, sentence: str) -> None:
    assert only_candidate(text).sentence == sentence


def test_a_speaker_is_the_subject() -> None:
    candidate = only_candidate("I live in Vienna.", CHAT, speaker="Ada")
    assert (candidate.subject, candidate.sentence) == ("Ada", "Ada lives in Vienna.")


@pytest.mark.parametrize("origin", ["harness", "memory", "compaction"])
def test_only_a_persons_words_count(origin: str) -> None:
    assert propose_from("Always use tabs.", origin=origin) == Proposals()


@pytest.mark.parametrize("kind", [EventType.ASSISTANT_RESPONSE, EventType.TOOL_RESULT])
def test_what_agents_and_tools_say_is_no_fact(kind: EventType) -> None:
    spoken = make_event(kind, text="My name is Claude.", content="We use npm.", call_id="1")
    assert propose_candidates([spoken], WORK, redact) == Proposals()


def test_a_sub_agents_user_is_an_agent() -> None:
    session = SessionContext("s1", "s0", "coder", project="/src/shop", is_subagent=True)
    assert propose_from("Always use tabs.", session) == Proposals()


def test_work_belongs_to_the_project_and_habits_to_the_person() -> None:
    assert only_candidate("We use pnpm.").level == "project"
    assert only_candidate("I prefer small commits.").level == "agent"
    assert only_candidate("I prefer small steps.", CHAT).level == "peer"
    assert only_candidate("I prefer small steps.", CHAT).peer == "ada"


def test_what_a_stranger_says_stays_theirs() -> None:
    candidate = only_candidate("My user ID is mia_li_3668.", STRANGER)
    assert (candidate.level, candidate.peer) == ("peer", "stranger:s3")
    assert describe_peer(candidate.peer or "") == "somebody unnamed, session s3"
    assert describe_peer("ada") == "ada"


def test_a_wish_of_the_moment_is_no_rule_outside_of_work() -> None:
    assert stated_in("Use the aisle seat instead of the window.", CHAT) == []
    assert propose_from("No, the seat is 12A.", CHAT).candidates == []


def test_a_secret_is_no_fact() -> None:
    proposals = propose_from("Remember that our password is hunter2x9!")
    assert proposals.candidates == []
    assert [rejected.rejected for rejected in proposals.rejected] == ["contains a secret"]
    assert "hunter2x9" not in str(proposals)


def test_what_a_rule_refused_is_told_with_its_reason() -> None:
    (rejected,) = propose_from("I prefer this one.").rejected
    assert (rejected.predicate, rejected.quote) == ("prefers", "I prefer this one.")


def test_of_a_pasted_document_only_what_stands_around_it_is_read() -> None:
    document = "\n\n".join(f"Section {n}. Always use tabs in section {n}. " + "word " * 60 for n in range(9))
    text = f"Please read the text below. We use pnpm.\n\n{document}\n\nFrom now on, write tests first."
    assert [candidate.predicate for candidate in propose_from(text).candidates] == ["uses", "rule"]


def test_a_message_proposes_a_bounded_number() -> None:
    text = "\n".join(f"I like tool number {chr(97 + n % 26)}{n}." for n in range(MAX_CANDIDATES + 20))
    proposals = propose_from(text[:1499])
    assert len(proposals.candidates) <= MAX_CANDIDATES
    assert len({candidate.id for candidate in proposals.candidates}) == len(proposals.candidates)


def test_identifiers_are_stable_and_tell_events_apart() -> None:
    assert only_candidate("We use pnpm.").id == only_candidate("We use pnpm.").id
    other = propose_candidates([make_event(EventType.USER_MESSAGE, 2, text="We use pnpm.")], WORK, redact).candidates[0]
    assert other.id != only_candidate("We use pnpm.").id


def test_however_events_are_cut_the_candidates_are_the_same() -> None:
    events = [make_event(EventType.USER_MESSAGE, n, text=text) for n, text in enumerate(STATED, 1)]
    whole = propose_candidates(events, WORK, redact)
    parts = [propose_candidates([event], WORK, redact) for event in events]
    assert whole.candidates == [candidate for proposals in parts for candidate in proposals.candidates]
    assert whole.rejected == [rejected for proposals in parts for rejected in proposals.rejected]


PEOPLE = SessionContext("s", "s", "dialogue", peer="Jon and Gina")


@pytest.mark.parametrize(
    "text", ["Never give up on your dreams!", "Remember, the first year is hard.", "Always look forward to our trips!"]
)
def test_what_people_tell_each_other_is_no_instruction(text: str) -> None:
    proposals = propose_from(text, PEOPLE, speaker="Gina")
    assert proposals.candidates == []
    assert {rejected.rejected for rejected in proposals.rejected} <= {"said to another person, not to an agent"}
    assert len(propose_from("Never push to main!", speaker="Gina").candidates) == 1  # here an agent is spoken to


@pytest.mark.parametrize("session", [WORK, CHAT])
@pytest.mark.parametrize(
    "text",
    [
        "Never give up on your dreams!",
        "Always follow your heart.",
        "Never stop learning!",
        "Always be kind to yourself.",
    ],
)
def test_advice_to_anybody_is_no_order_to_an_agent(text: str, session: SessionContext) -> None:
    proposals = propose_from(text, session)
    assert stated_in(text, session) == []
    assert "rule" in [rejected.predicate for rejected in proposals.rejected]


@pytest.mark.parametrize(
    "text",
    ["keep commit messages to one line", "commit messages in english please", "setTheme should return an error",
     "components should use css modules", "you need to read the file in full", "read the file in full",
     "you must keep answers short"],
)  # fmt: skip
def test_an_order_that_does_not_say_that_it_lasts_is_counted_and_is_a_near_miss(text: str) -> None:
    proposals = propose_from(text)
    assert [candidate.predicate for candidate in proposals.candidates] == ["instruction"]
    assert [(rejected.predicate, rejected.quote) for rejected in proposals.rejected] == [("instruction", text)]
    assert "three sessions" in str(proposals.rejected[0].rejected)
    assert propose_from(text, CHAT).candidates == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Never push.", "never push"),
        ("never deploy", "never deploy"),
        ("never execute npm", "never execute npm"),
        ("never execute npm, save in your memory please", "never execute npm"),
        ("Never commit without asking, remember that.", "Never commit without asking"),
        ("never push, and please save it to memory", "never push"),
    ],
)
def test_never_lasts_by_itself(text: str, value: str) -> None:
    assert [(each.predicate, each.value.lower()) for each in stated_in(text)] == [("rule", value.lower())]


@pytest.mark.parametrize(
    "text", ["never push in this branch", "never commit yet", "never push for now", "never deploy today", "never mind"]
)
def test_never_of_the_moment_does_not_last(text: str) -> None:
    assert stated_in(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bump the version before each commit", "bump version before each commit"),
        ("rerun the tests after each change", "rerun tests after each change"),
        ("use `pnpm` when you install", "use pnpm when you install"),
        ("run `make check` before you commit", "run make check before you commit"),
        ("run `src/check.py` before you commit", "run files before you commit"),
        ("bump version", "bump version"),
        ("commit and push", None),
        ("commit this", None),
        ("implement the plan", None),
        ("go ahead", None),
        ("React components only", None),
    ],
)
def test_an_order_names_what_it_is_about(text: str, value: str | None) -> None:
    orders = [each.value for each in propose_from(text).candidates if each.predicate == "instruction"]
    assert next(iter(orders), None) == value


def test_a_log_that_tells_no_call_that_was_let_pass_has_no_denials_in_a_row() -> None:
    call: dict[str, Any] = {"call_id": "c1", "tool": "Bash", "arguments": {"command": "git push"}}
    denial = make_event(EventType.APPROVAL_DENIED, **call)
    proposed = [propose_candidates([denial], replace(WORK, is_imported=is_imported), redact).candidates
                for is_imported in (False, True)]  # fmt: skip
    assert [[each.value for each in each_of] for each_of in proposed] == [["denied:Bash git push"], []]


def test_an_apostrophe_may_be_left_out() -> None:
    candidate = only_candidate("we dont use docker")
    assert (candidate.predicate, candidate.value, candidate.quote) == ("does not use", "docker", "we dont use docker")


@pytest.mark.parametrize("text", ["that should be fine", "it should return a list", "the tests should have passed"])
def test_an_expectation_is_no_order(text: str) -> None:
    assert propose_from(text) == Proposals()


@pytest.mark.parametrize(("session", "kept"), [(PEOPLE, 0), (CHAT, 1)])
def test_a_model_takes_no_instruction_from_people_who_talk_to_each_other_either(
    session: SessionContext, kept: int
) -> None:
    event = make_event(EventType.USER_MESSAGE, text="Never give up on your dreams!", speaker="Gina")
    chunk = TranscriptChunk(tuple(transcript_lines([event], session, str)))
    stated = fact_json("P1", "Never give up", "rule", "never give up", "Gina says: never give up.", "constraint")
    proposals = read_facts(chunk, {"facts": [stated]}, FactExtractor(session, "model:m:1"))
    assert len(proposals.candidates) == kept
    assert [rejected.occurred_at for rejected in proposals.rejected] == [event.occurred_at] * (1 - kept)


def test_a_session_of_several_people_is_known_by_their_names() -> None:
    assert PEOPLE.is_among_people("Jon")
    assert PEOPLE.is_among_people("gina")
    assert not PEOPLE.is_among_people("Ada")
    assert not PEOPLE.is_among_people(None)
    assert not SessionContext("s", "s", "chat", peer="Jon").is_among_people("Jon")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Do we use Terraform?", None),
        ("We use Terraform, right?", "a question"),
        ("Tell me how to run to format from WSL 2", "a question"),
        ("I think we use Terraform.", "only considered"),
        ("No, the port is 8443.", "a wish of the moment, outside a project"),
        ("No problem!", None),
    ],
)
def test_a_near_miss_is_kept_with_the_reason(text: str, reason: str | None) -> None:
    proposals = propose_from(text, SessionContext("s", "s", "chat", peer="ada"))
    assert [rejected.rejected for rejected in proposals.rejected] == ([reason] if reason else [])


def test_near_misses_of_a_message_are_bounded() -> None:
    proposals = propose_from(" ".join(f"We use tool{number}, right?" for number in range(40)))
    assert len(proposals.rejected) == MAX_REJECTED


def test_an_order_is_the_same_whatever_files_it_names_and_however_politely() -> None:
    for first, *others in [
        ("read src/app.ts in full", "ok, read @docs/a.md and @docs/b.md in full please", "Read it in full, then go"),
        ("ship it and tag the release", "can you please ship this and tag the release?", "ship and tag release"),
        (
            "bump version and update readme",
            "bump the version, and update @README.md",
            "please bump version and update readme.md",
        ),
        (
            "run the linter before you push",
            "Always run the linter before pushing.",
            "you should run the linter before you push",
        ),
    ]:
        orders = [find_instruction(text) or "" for text in (first, *others)]
        assert [is_same_order(order, orders[0]) for order in orders] == [True] * len(orders), orders
    for first, other in [
        ("run the unit tests before you push", "never run the unit tests before you push"),
        ("keep lines under 80 chars", "keep lines under 120 chars"),
        ("use tabs for indentation", "use spaces for indentation"),
        ("run tests before commit", "commit before running tests"),
        ("run tests before commit", "run tests after commit"),
        ("run the linter before running tests", "before running the linter, run tests"),
    ]:
        assert not is_same_order(first, other)


@pytest.mark.parametrize(
    ("wish", "texts"),
    [
        (
            "use haiku 4",
            [
                "do it, delegate the docs to haiku 4 on the current branch",
                "yes, plan it and write it with Haiku 4 as a subagent",
                "continue but use haiku 4 as subagents",
            ],
        ),
        (
            "amend existing commit",
            [
                "fix everything and add it to the current commit(s)",
                "yes, and fixup in the right commit + force push with lease",
                "shouldn't this be added to an existing commit?",
            ],
        ),
        (
            "use property-based tests",
            [
                "why aren't we using property-based tests for these cases?",
                "can't the tests be written as property based?",
                "add the missing cases, use property-based tests where possible",
            ],
        ),
    ],
)
def test_what_requests_and_reproaches_want_is_the_same_order_whatever_their_work(wish: str, texts: list[str]) -> None:
    wishes = [find_wishes(text) for text in texts]
    assert wish in wishes[0] + wishes[2]
    assert len(group_orders([order for orders in wishes for order in orders])) == 1
    for text, orders in zip(texts, wishes, strict=True):
        assert set(orders) & {candidate.value for candidate in propose_from(text).candidates}


@pytest.mark.parametrize(
    "text",
    ["never use yarn here", "stop using mocks", "use it", "why are we using mocks?", "can we use the big runner?",
     "apply the same colour to the footer as well", "rebase with the changes of main", "add it to the readme",
     "Consider using io.LimitReader for the response", "if we use redis, tell me"],
)  # fmt: skip
def test_nothing_is_wanted_by_denying_considering_or_asking(text: str) -> None:
    assert find_wishes(text) == []


def test_a_blaming_question_is_the_order_to_do_it() -> None:
    order = find_instruction("run the linter before you push")
    assert find_instruction("why don't you run the linter before you push?") == order
    assert find_instruction("why did you run the linter before you push?") is None


@pytest.mark.parametrize("text", ["add unit tests for this", "open the docs and the tests with it"])
def test_an_order_that_loses_its_last_words_is_not_counted(text: str) -> None:
    assert find_instruction(text) is None


@pytest.mark.parametrize(
    "text",
    ["read src/app.ts", "read docs/plan.md and files in docs", "commit",
     "commit this", "commit your changes", "why did you run the tests first?",
     "fix #412 first", "update this page and the tests", "open https://a.example/b first",
     "run the tests now, first"],
)  # fmt: skip
def test_an_order_about_what_is_at_hand_is_not_counted(text: str) -> None:
    assert propose_from(text).candidates == []


def test_nothing_that_is_shown_or_planned_is_an_order() -> None:
    order = "run the linter before you push"
    assert [candidate.value for candidate in propose_from(order).candidates] == ["run linter before you push"]
    plan = "\n".join(["Implement the following plan:", "", *["- do one thing after another"] * 6, order])
    pasted = f"it says:\n> {order}\n$ {order}\n```\n{order}\n```"
    for text in (plan, pasted, f"{order}. {'And so on. ' * 60}"):
        assert propose_from(text).candidates == [], text


def test_an_instruction_lasts_once_a_person_accepts_it() -> None:
    repeated = [replace(only_candidate("read the file in full"), id=f"c{n}", root_id=f"r{n % 3}") for n in range(6)]
    assert reconcile_candidates(repeated) == []
    accepted = replace(repeated[0], id="a", extractor=ACCEPTED_EXTRACTOR, sentence="Read files in full.", root_id="a")
    (fact,) = reconcile_candidates([*repeated, accepted])
    assert (fact.sentence, fact.sessions) == ("Read files in full.", 4)


@pytest.mark.parametrize(
    "prefix", ["[Image #1] ", "[Image #1] [Image #2]\n", "[Pasted text #1 +20 lines] ", "@src/app.ts "]
)
def test_what_a_client_puts_before_a_message_hides_no_statement(prefix: str) -> None:
    candidate = only_candidate(f"{prefix}We use pnpm for packages.")
    assert (candidate.sentence, candidate.quote) == ("We use pnpm for packages.", "We use pnpm for packages.")


# What is believed at first, what is said then, what is no longer believed, and what is instead.
TAKEN_BACK = [
    ("We use pnpm for packages.", "We no longer use pnpm.", "pnpm", None),
    ("We use pnpm for packages.", "No, we don't use pnpm anymore, we use bun.", "pnpm", "bun"),
    ("We use Jenkins.", "We switched from Jenkins to Buildkite.", "Jenkins", "Buildkite"),
    ("We use Jenkins for CI.", "We've replaced Jenkins with Buildkite.", "Jenkins", "Buildkite"),
    ("We use yarn for packages.", "We moved away from yarn last month.", "yarn", None),
    ("Our database is MySQL 8.", "The database is not MySQL, it is Postgres 16.", "MySQL", "Postgres 16"),
    ("Our database is MySQL 8.", "Actually, it's Postgres 16, not MySQL.", "MySQL", "Postgres 16"),
    ("From now on always use tabs.", "Stop using tabs, use spaces.", "tabs", "spaces"),
    ("Always use tabs for indentation.", "Forget what I said about tabs.", "tabs", None),
    ("The mail relay lives at host7.example.", "Forget what I said about the mail relay.", "host7", None),
    ("The mail queue is called out_a.", "The mail queue is not out_a, it is out_b.", "out_a", "out_b"),
    ("Never push to main.", "Forget the rule about pushing to main.", "main", None),
    ("I prefer tabs over spaces.", "I don't prefer tabs anymore.", "tabs", None),
    ("I live in Vienna.", "I moved from Vienna to Graz.", "Vienna", "Graz"),
    ("We use black for formatting.", "Instead of black we now use ruff.", "black", "ruff"),
    (
        "Remember that we deploy on Tuesdays.",
        "We deploy on Thursdays now, not on Tuesdays.",
        "on Tuesdays.",
        "Thursdays",
    ),
    ("Our default branch is master.", "The default branch was renamed from master to main.", "master", "main"),
]


@pytest.mark.parametrize(("first", "then", "old", "new"), TAKEN_BACK)
def test_a_correction_ends_what_it_corrects(first: str, then: str, old: str, new: str | None) -> None:
    said = [make_event(EventType.USER_MESSAGE, n, text=text) for n, text in enumerate((first, then), 1)]
    candidates = propose_candidates(said, WORK, redact).candidates
    for cited in (candidates, candidates[::-1]):  # however they come
        believed = [fact.sentence for fact in reconcile_candidates(cited) if fact.superseded_reason is None]
        assert not any(old in sentence and f"not {old}" not in sentence for sentence in believed if sentence != then)
        assert new is None or any(new in sentence for sentence in believed)
    again = propose_candidates([*said, make_event(EventType.USER_MESSAGE, 3, text=first)], WORK, redact).candidates
    assert any(
        fact.superseded_reason is None and old.rstrip(".") in fact.sentence for fact in reconcile_candidates(again)
    )


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("Always run the tests before you commit.", "We no longer use tests."),  # a small part of what it says
        ("We use pnpm, not npm.", "We no longer use npm."),  # the denial holds
        ("We use pnpm for packages.", "If we no longer use pnpm, what then?"),
        ("We use pnpm for packages.", "Do we no longer use pnpm?"),
        ("We use pnpm for packages.", "> we no longer use pnpm"),
        ("Our database is MySQL 8.", "Stop using it."),
        ("The mail relay lives at host7.example.", "Forget what I said about the relay."),  # which one?
    ],
)
def test_what_is_said_of_something_else_ends_nothing(first: str, then: str) -> None:
    said = [make_event(EventType.USER_MESSAGE, n, text=text) for n, text in enumerate((first, then), 1)]
    facts = reconcile_candidates(propose_candidates(said, WORK, redact).candidates)
    assert [fact.superseded_reason for fact in facts] == [None]


@pytest.mark.parametrize(
    "sentence",
    [
        "stop server",
        "stop for a second, so the hook was wrong",
        "Stop hook says: reviewing your changes",
        "The orphaned commits aren't deleted but become unreachable.",
        "The test keys aren't realistic enough, they contain the word EXAMPLE.",
        "not as a comment, but as a document attached to the page.",
        "Not keep the type when it's empty",
    ],
)
def test_what_describes_the_moment_takes_nothing_back(sentence: str) -> None:
    assert find_ending(sentence) is None


def test_a_standing_order_in_other_words_is_one_fact() -> None:
    texts = (
        "Always run the tests before you push.",
        "always run the tests before pushing",
        "Always run tests before you push, please",
    )
    said = [make_event(EventType.USER_MESSAGE, n, text=text) for n, text in enumerate(texts, 1)]
    facts = reconcile_candidates(propose_candidates(said, WORK, redact).candidates)
    assert [(fact.sentence, len(fact.evidence)) for fact in facts] == [(texts[0], 3)]


def test_an_answer_to_an_approval_is_observed_with_what_it_was_about() -> None:
    call = make_event(
        EventType.TOOL_CALL, 1, call_id="c", tool="Bash", arguments={"command": "cd x && git push origin main"}
    )
    denial = make_event(EventType.APPROVAL_DENIED, 2, call_id="c", tool="Bash", reason="not on a Friday")
    (candidate,) = propose_candidates([call, denial], WORK, redact).candidates
    assert (candidate.predicate, candidate.value) == ("approval", "denied:Bash git push")
    assert candidate.quote == "not on a Friday"


def test_an_approval_may_carry_its_arguments() -> None:
    grant = make_event(
        EventType.APPROVAL_GRANTED, 2, tool="shell", arguments={"command": ["bash", "-lc", "npm install x"]}
    )
    assert propose_candidates([grant], WORK, redact).candidates[0].value == "granted:shell npm install"


@pytest.mark.parametrize(
    "data",
    [
        {"tool": "Bash"},  # a shell, and nobody knows which command
        {"tool": "ExitPlanMode"},  # an answer to this plan
        {"tool": "Edit", "arguments": {"file_path": "a"}},  # an answer to this text
        {"tool": "send_mail", "interrupted": True},  # nobody was asked
    ],
)
def test_an_answer_that_says_nothing_of_the_next_call_is_not_observed(data: dict[str, Any]) -> None:
    assert propose_candidates([make_event(EventType.APPROVAL_DENIED, 1, **data)], WORK, redact).candidates == []


def test_a_quote_is_verified_but_for_white_space_and_case() -> None:
    assert is_quote_in("always  use\nTABS", "Please: Always use tabs.")
    assert not is_quote_in("always use spaces", "Please: Always use tabs.")
    assert not is_quote_in(" ", "Please: Always use tabs.")


@NO_DEADLINE
@given(st.text(max_size=300), st.sampled_from(sorted(STATED)), st.text(max_size=100))
def test_every_quote_is_in_the_redacted_text(before: str, stated: str, after: str) -> None:
    text = f"{before}\n{stated}\n{after}"
    for candidate in propose_from(text).candidates:
        assert is_quote_in(candidate.quote, redact(text))
        assert len(candidate.quote) <= 300


STANDING = "From now on, always use tabs for indentation."


@pytest.mark.parametrize(
    ("principal", "counts"),
    [(None, True), ("user:chat", True), ("user:codex", True), ("client:bot", False), ("client:user", False),
     ("agent", False), ("tool:mail", False), ("harness", False), ("operator", False), ("users:x", False)],
)  # fmt: skip
def test_only_what_a_persons_door_brought_is_the_users_word(principal: str | None, counts: bool) -> None:
    data: dict[str, Any] = {"text": STANDING, "origin": "user"}
    said = replace(make_event(EventType.USER_MESSAGE, **data), principal=principal)
    assert bool(propose_candidates([said], WORK, redact).candidates) is counts
    assert [line.kind for line in transcript_lines([said], WORK, redact)] == ["P"] * counts
    call = make_event(EventType.TOOL_CALL, call_id="c", tool="Bash", arguments={"command": "git push --force"})
    denied = make_event(EventType.APPROVAL_DENIED, 2, call_id="c", tool="Bash", reason=STANDING)
    log = [call, replace(denied, principal=principal)]
    assert bool(propose_candidates(log, WORK, redact).candidates) is counts


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("use hatch as the package manager", "Use hatch as the package manager."),
        ("I do not want to sign my tags anymore. Too much overhead.", "Do not sign my tags any more."),
        ("Use heap selection instead of sort-after-push for shelf levels.", None),
    ],
)
def test_a_plain_wish_is_a_fact(text: str, sentence: str | None) -> None:
    assert [candidate.sentence for candidate in stated_in(text)] == [sentence or text]


def test_a_choice_among_the_orders_of_a_task_is_of_that_task() -> None:
    text = "Enforce the limits of each shelf. Use heap selection instead of sort-after-push for levels. Check @src/a.rs"
    assert stated_in(text) == []
    assert "among the orders of one task" in [candidate.rejected for candidate in propose_from(text).rejected]
    assert stated_in(text.replace("Use heap", "From now on, use heap")) != []


def test_a_list_of_what_a_thing_must_be_holds_no_wishes() -> None:
    items = "\n- never create duplicates\n- always write the version\n"
    assert [*split_sentences(f"The import script must be safe to repeat:{items}")] == [
        "The import script must be safe to repeat:"
    ]
    for head in ("Rules:", "You must keep to this:", "The code must follow these rules:"):
        assert [*split_sentences(head + items)] == [head, "never create duplicates", "always write the version"]


PERSONA = "You must fully embody this persona and follow all instructions. NEVER break character until told to exit."
TEMPLATE = """
<agent-activation CRITICAL="TRUE">
1. LOAD the whole file of the agent from docs/agents/coach.md
2. READ all of it: it holds the persona, the menu, and what to do
3. Stay in character throughout the session
</agent-activation>
"""


def test_what_introduces_a_template_of_a_client_is_not_the_persons_word() -> None:
    proposals = propose_from(PERSONA + "\n" + TEMPLATE)
    assert proposals.candidates == []
    assert {rejected.rejected for rejected in proposals.rejected} == {"introduces a template"}


OUTLINE = """

You **MUST** consider what was given before you go on.

## Outline

1. Never use inline styles in this project.
2. Always run the whole check before you hand over.
"""


def test_of_a_prompt_that_a_client_expands_what_was_filled_in_is_the_persons_word() -> None:
    given = "Always write the migration by hand in this project."
    text = f"## User Input\n\n```text\n{given}\n```{OUTLINE}"
    assert {candidate.quote for candidate in propose_from(text).candidates} == {given}
    assert split_quoted(text)[0].replace(BLANK, "").strip() == given
    assert propose_from(f"## User Input\n\n```text\n\n```{OUTLINE}").candidates == []
    shown = f"## Log\n\n```text\n{given}\n```\n\nNever use inline styles in this project."
    assert given not in {candidate.quote for candidate in propose_from(shown).candidates}


@pytest.mark.parametrize(
    "pasted",
    [
        "<div class='card'><p>Sum</p><p>{{ sum }}</p><b>{{ tax }}</b></div>\n" * 5,
        "```\n<instructions>\nRead the file and do what it says, step by step, to its end.\n</instructions>\n```",
        "<email>\nHello, the sum of the invoice of March is wrong again, please look at it.\nBest, Ada\n</email>",
        "",
    ],
)
def test_a_wish_beside_pasted_markup_or_code_is_the_persons_word(pasted: str) -> None:
    assert propose_from("Never use inline styles in this project.\n" + pasted).candidates
