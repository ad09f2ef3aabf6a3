"""/v1/facts, procedures, solutions, lessons, recall, next and explain: what was learned, and what a person tells it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply
from consolidator.api.parameters import Agent, Facts, Lessons, Limit, Procedures, Project, Scoped, Solutions
from consolidator.api.schemas import Input, RowAnswer, list_of, of_row
from consolidator.models.fact import CandidateRow, FactRow
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import MemoryScope, SolutionFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.models.session import SteerCounts
from consolidator.models.solution import SolutionRow
from consolidator.service.encoding import to_visible_json
from consolidator.service.memory import facts, rules
from consolidator.service.memory import remember as remembering
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import MAX_CORRECTION_LENGTH
from consolidator.service.memory.learned import KINDS, ChangedFactRow, FailedAgainRow, WaitingCountsRow, load_learned
from consolidator.service.memory.lessons import LessonRow, list_friction
from consolidator.service.memory.lessons import list_commands as load_commands
from consolidator.service.memory.procedures import list_procedures as load_procedures
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET
from consolidator.service.memory.recall import recall as recall_memory
from consolidator.service.memory.remember import MAX_STATEMENT_CHARS, Remembered
from consolidator.service.memory.rules import RuleProposal as RuleProposalRow
from consolidator.service.memory.rules import RuleQuoteRow
from consolidator.service.memory.solutions import find_solutions
from consolidator.service.memory.solutions import list_solutions as load_solutions
from consolidator.service.memory.suggestions import suggest_next_calls
from consolidator.service.memory.telling.brief import Situation
from consolidator.service.memory.telling.brief_preview import BriefLine as BriefLineRow
from consolidator.service.memory.telling.brief_preview import BriefPreview, preview_brief

router = APIRouter(tags=["memory"])
MemoryId = Annotated[str, Path(min_length=1, max_length=200, description="an id", examples=["f3a91c07d2b8"])]


@of_row(FactRow, "fact")
class Fact(BaseModel):
    """What is believed, since when, and what it rests on."""


FactList = list_of("FactList", "Facts.", facts=Fact)


@of_row(CandidateRow, "candidate", only="id agent project peer sentence quote session_id seq quarantined")
class Candidate(BaseModel):
    """A statement of one event, with its quote."""

    model_config = ConfigDict(extra="allow")


class FactChange(BaseModel):
    """What a person's word did."""

    id: str = Field(description="of the fact that is told about; after a correction, of the new one")
    believed: bool = Field(description="whether memory believes it from now on, as far as nothing outranks it")


CandidateList = list_of("CandidateList", "Statements that wait for a review.", candidates=Candidate)


@of_row(ProcedureRow, "procedure")
class Procedure(BaseModel):
    """Steps that sessions have in common."""


ProcedureList = list_of("ProcedureList", "Procedures, the best first.", procedures=Procedure)


@of_row(SolutionRow, "solution")
class Solution(BaseModel):
    """An error and what resolved it; where it was looked up, `body.suggestion` is the fix for this case."""


SolutionList = list_of("SolutionList", "Solutions, the best first.", solutions=Solution)


@of_row(LessonRow, "lesson", only="id person project kind key line score body learned_at updated_at pinned corrects")
class Lesson(BaseModel):
    """What sessions of a project showed of its commands, failures or files."""


LessonList = list_of("LessonList", "Lessons, the most helpful first.", lessons=Lesson)


@of_row(BriefLineRow)
class BriefLine(BaseModel):
    """A line that an agent is told."""


@of_row(BriefPreview)
class BriefAnswer(BaseModel):
    """What an agent would be told at a moment."""

    lines: list[BriefLine]


@of_row(ChangedFactRow)
class ChangedFact(Fact):
    """A fact that took another's place."""


@of_row(FailedAgainRow)
class FailedAgain(Solution):
    """A solution whose error occurred again though its fix was known."""


@of_row(WaitingCountsRow)
class Waiting(BaseModel):
    """How much waits for a person, whenever it came."""


@of_row(SteerCounts)
class Steering(BaseModel):
    """Steers, and what became of the tasks that they were given in."""


class LearnedNews(BaseModel):
    """What was learned since a moment: the best of each kind."""

    since: datetime | None = Field(description="null before the first night that learned")
    nights: int | None = Field(default=None, description="as the next ones, only for who sees all of memory")
    sessions: int | None = None
    seen: int | None = Field(default=None, description="events that the nights read")
    learned: int | None = None
    nothing: int | None = None
    deferred: int | None = None
    dead: int | None = None
    steering: Steering | None = None
    facts: list[Fact]
    changed: list[ChangedFact]
    procedures: list[Procedure]
    solutions: list[Solution]
    lessons: list[Lesson]
    failed_again: list[FailedAgain] = Field(description="though a fix had worked; only for who sees all of memory")
    limit: int = Field(description="of each kind")
    more: dict[str, int] = Field(description="how many of each kind the limit left out")
    waiting: Waiting | None


class RecallAnswer(BaseModel):
    """What memory knows about a query: a block for a prompt, and the same as cited items."""

    block: str
    items: list[dict[str, Any]]


SuggestionList = list_of(
    "SuggestionList", "The calls that usually follow, the likeliest first.", suggestions=dict[str, Any]
)


class Explanation(BaseModel):
    """What something learned rests on."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["fact", "procedure", "solution", "lesson", "candidate"]
    title: str
    lines: list[str]
    evidence: list[dict[str, Any]]
    by: str


class _Scoped(Input):
    """A body that names whose memory is meant."""

    agent: str | None = Field(default=None, max_length=200)
    project: str | None = Field(default=None, max_length=1000, description="its path, or the last part of it")
    peer: str | None = Field(default=None, max_length=200)

    @property
    def scope(self) -> MemoryScope:
        """Whose memory is meant."""
        return MemoryScope(self.agent, self.project, self.peer)


class ErrorLookup(_Scoped):
    """An error to look up."""

    error: str = Field(min_length=1, max_length=100_000, description="the error's text as it came", examples=["EACCES"])
    tool: str | None = Field(default=None, max_length=200, description="the tool that failed")
    arguments: dict[str, Any] | None = Field(default=None, description="what it was given: some fixes change it")
    limit: int = Field(default=5, ge=1, le=100)


class Statement(_Scoped):
    """What memory is to remember: of the project, else of the peer, else of the agent, which worked last by default."""

    statement: str = Field(min_length=1, max_length=MAX_STATEMENT_CHARS, examples=["we use tabs"])


class Forgetting(_Scoped):
    """Which fact memory is to believe no more."""

    words: str = Field(
        min_length=1, max_length=1000, description="its id, how the id begins, or words that it alone has"
    )


@of_row(Remembered)
class RememberedFact(RowAnswer):
    """A fact as it was remembered or forgotten."""


@of_row(RuleQuoteRow)
class RuleQuote(BaseModel):
    """A person's words, and where they stand."""


@of_row(RuleProposalRow)
class RuleProposal(BaseModel):
    """What people asked in several sessions, as a rule to accept or dismiss."""

    quotes: list[RuleQuote]
    withheld: str | None = Field(None, description="why it is told to no agent before a person accepts it")


RuleList = list_of("RuleList", "What waits for a person's word, the most often asked first.", rules=RuleProposal)


class Acceptance(Input):
    """A proposal that is to be believed."""

    words: str | None = Field(
        default=None, max_length=MAX_STATEMENT_CHARS, description="the rule in better words; else as it is proposed"
    )
    everywhere: bool = Field(default=False, description="for every project of its agent, not for the one alone")


class Correction(Input):
    """A fact as it should be."""

    text: str = Field(min_length=1, max_length=MAX_CORRECTION_LENGTH, examples=["We deploy on Mondays."])


class Review(Input):
    """A decision about a statement in quarantine."""

    accept: bool = Field(description="believe it; false rejects it for good")


def _show_change(believed: bool) -> Callable[[FactRow | CandidateRow | RuleProposalRow], FactChange]:
    """Return what shows a fact or statement as a person's word has changed it."""
    return lambda changed: FactChange(id=changed.id, believed=believed)


@router.get("/facts", **operation("read", FactList))
async def list_facts(call: Reading, filters: Facts) -> Response:
    """List facts, those in use and with most sessions first: as believed at `as_of`, or as true at `valid_at`.

    For a credential of one peer or project, those that rest on its own sessions, or that enough people said.
    """
    return reply(to_visible_json({"facts": await facts.list_facts(call.database, filters, viewer=call.viewer)}))


@router.get("/facts/quarantined", **operation("read", CandidateList))
async def list_quarantined(call: Reading, agent: Agent = None, limit: Limit = 50) -> Response:
    """List what waits for a person's review, the latest first: orders that a tool, a page or a quoted text gave."""
    rows = await facts.list_quarantined(call.database, agent=agent, limit=limit, viewer=call.viewer)
    return reply(to_visible_json({"candidates": rows}))


@router.post("/remember", **operation("record", RememberedFact))
async def remember(call: Writing, body: Statement) -> Response:
    """Remember a statement: believed at once, a person's word with the scope `write`, else an agent's."""
    return await call.change(RememberedFact.of, remembering.remember, body.statement, body.scope)


@router.post("/forget", **operation("record", RememberedFact))
async def forget(call: Writing, body: Forgetting) -> Response:
    """Stop believing the one fact of an id or of some words; several matches are an error that lists them."""
    return await call.change(RememberedFact.of, remembering.forget, body.words, body.scope)


@router.get("/rules", **operation("read", RuleList))
async def list_rules(call: Reading, agent: Agent = None, project: Project = None, limit: Limit = 50) -> Response:
    """List what people asked for in three sessions or more, with their words: proposals until a person accepts them."""
    proposals = await rules.list_rules(call.database, agent=agent, project=project, limit=limit, viewer=call.viewer)
    return reply(to_visible_json({"rules": proposals}))


@router.post("/rules/{rule_id}/accept", **operation("write", FactChange))
async def accept_rule(call: Writing, rule_id: MemoryId, body: Acceptance) -> Response:
    """Believe a proposal as a rule. Answers the id of the fact."""
    return await call.change(
        _show_change(True), rules.accept_rule, rule_id, words=body.words, everywhere=body.everywhere
    )


@router.post("/rules/{rule_id}/dismiss", **operation("write", FactChange))
async def dismiss_rule(call: Writing, rule_id: MemoryId) -> Response:
    """Propose something no more; where it is believed already, it is forgotten."""
    return await call.change(_show_change(False), rules.dismiss_rule, rule_id)


@router.post("/facts/{fact_id}/forget", **operation("write", FactChange))
async def forget_fact(call: Writing, fact_id: MemoryId) -> Response:
    """Stop believing a fact, and whatever says the same later. Its history stays."""
    return await call.change(_show_change(False), facts.forget_fact, fact_id)


@router.post("/facts/{fact_id}/correct", **operation("write", FactChange))
async def correct_fact(call: Writing, fact_id: MemoryId, body: Correction) -> Response:
    """Put a person's sentence in place of a fact; nothing outranks it. Answers the new fact's id."""
    return await call.change(_show_change(True), facts.correct_fact, fact_id, body.text)


@router.post("/facts/{fact_id}/undo", **operation("write", FactChange))
async def undo_change(call: Writing, fact_id: MemoryId) -> Response:
    """Take back that a person forgot or corrected a fact: it is believed again as it was. Answers that fact's id."""
    return await call.change(_show_change(True), facts.undo_change, fact_id)


@router.post("/facts/{candidate_id}/review", **operation("write", FactChange))
async def review_candidate(call: Writing, candidate_id: MemoryId, body: Review) -> Response:
    """Let a statement in quarantine be believed, or reject it for good."""
    return await call.change(_show_change(body.accept), facts.review_candidate, candidate_id, accept=body.accept)


@router.get("/procedures", **operation("read", ProcedureList))
async def list_procedures(call: Reading, filters: Procedures) -> Response:
    """List the procedures that sessions have in common, the best first."""
    return reply(to_visible_json({"procedures": await load_procedures(call.database, filters, viewer=call.viewer)}))


@router.get("/solutions", **operation("read", SolutionList))
async def list_solutions(call: Reading, filters: Solutions) -> Response:
    """List errors and what resolved them, confirmed ones first."""
    return reply(to_visible_json({"solutions": await load_solutions(call.database, filters, viewer=call.viewer)}))


@router.post("/solutions/lookup", **operation("read", SolutionList))
async def lookup_solutions(call: Writing, body: ErrorLookup) -> Response:
    """Look an error up: the fix bound to this case, what was done last time, how often it worked. Changes nothing.

    It takes an Idempotency-Key as every POST does, keeps no answer, and looks up again what is sent again.
    """
    rows = await find_solutions(
        call.database,
        body.error,
        SolutionFilter(body.agent, body.project, body.peer, limit=body.limit),
        tool=body.tool,
        arguments=body.arguments,
        viewer=call.viewer,
    )
    return reply(to_visible_json({"solutions": rows}))


@router.get("/commands", **operation("read", LessonList))
async def list_commands(call: Reading, filters: Lessons) -> Response:
    """List how commands are run in a project, and which never work, the most helpful first; of all agents."""
    return _show_lessons(await load_commands(call.database, filters, viewer=call.viewer))


@router.get("/friction", **operation("read", LessonList))
async def show_friction(call: Reading, filters: Lessons) -> Response:
    """List what failed in three sessions or more, and what then worked: what failed in most sessions first."""
    return _show_lessons(await list_friction(call.database, filters, viewer=call.viewer))


def _show_lessons(rows: list[LessonRow]) -> Response:
    """Answer with lessons, but for hostile ones."""
    return reply(to_visible_json({"lessons": [row for row in rows if row.harm is None]}))


@router.get("/brief", **operation("read", BriefAnswer))
async def show_brief(
    call: Reading,
    agent: Agent = None,
    project: Project = None,
    moment: Annotated[Moment, Query()] = "session_start",
    text: Annotated[str, Query(max_length=2000, description="the prompt, or the error")] = "",
    command: Annotated[
        str | None, Query(max_length=2000, description="the command about to run, or that failed")
    ] = None,
) -> Response:
    """Show what the next session would be told, with the tokens of each line; for a credential that is not narrowed."""
    called: dict[str, Any] = (
        {} if command is None else {"tool": "Bash", "arguments": {"command": command}, "directory": ""}
    )
    situation = Situation(text=text, **called)
    preview = await preview_brief(call.database, moment, MemoryScope(agent, project), situation, viewer=call.viewer)
    return reply(to_visible_json(preview))


@router.get("/learned", **operation("read", LearnedNews))
async def show_learned(
    call: Reading,
    scope: Scoped,
    since: Annotated[AwareDatetime | None, Query(description="by default the latest night that learned")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="of each kind")] = 10,
) -> Response:
    """Show what was learned since a moment: new and changed facts, procedures, solutions, and what waits for a person.

    A credential of one agent, peer or project is told its part alone, and no sums of what the nights read.
    """
    news = await load_learned(call.database, since, scope, limit=limit, viewer=call.viewer)
    if news is None:
        empty: dict[str, Any] = {kind: [] for kind in KINDS}
        return reply({**empty, "since": None, "limit": limit, "more": dict.fromkeys(KINDS, 0), "waiting": None})
    return reply(to_visible_json(news.as_json()))


@router.get("/recall", **operation("read", RecallAnswer))
async def recall(
    call: Reading,
    scope: Scoped,
    query: Annotated[str, Query(min_length=1, max_length=8000, description="a question, a task or an error")],
    token_budget: Annotated[int, Query(ge=100, le=100_000)] = DEFAULT_TOKEN_BUDGET,
) -> Response:
    """Recall what is known about a question or task: a block for the prompt, and the same as cited items."""
    answer = await recall_memory(
        call.database, query, scope, token_budget=token_budget, settings=call.settings, viewer=call.viewer
    )
    return reply(to_visible_json(answer.as_json()))


@router.get("/next", **operation("read", SuggestionList, responses={404: {}}))
async def suggest_next(
    call: Reading,
    session: Annotated[str, Query(min_length=1, max_length=500, description="a session's id, or how its name begins")],
    limit: Annotated[int, Query(ge=1, le=100)] = 5,
) -> Response:
    """Suggest the calls that usually follow where a session is now, with their arguments and confidence."""
    suggested = await suggest_next_calls(call.database, session, limit=limit, viewer=call.viewer)
    return reply(to_visible_json({"suggestions": suggested}))


@router.get("/explain/{memory_id}", **operation("read", Explanation))
async def explain_learned(call: Reading, memory_id: MemoryId) -> Response:
    """Explain anything that was learned: the quotes, sessions and run it rests on, and its history."""
    return reply(to_visible_json(await explain(call.database, memory_id, viewer=call.viewer)))
