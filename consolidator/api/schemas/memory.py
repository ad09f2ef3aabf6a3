"""What memory tells: facts, procedures, solutions, recall, suggestions and explanations; and what a person tells it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from consolidator.api.schemas.session import Input
from consolidator.service.memory.facts import MAX_CORRECTION_LENGTH
from consolidator.service.memory.remember import MAX_STATEMENT_CHARS

MemoryId = Annotated[str, Path(min_length=1, max_length=200, description="an id", examples=["f3a91c07d2b8"])]


class Fact(BaseModel):
    """What is believed, since when, and what it rests on."""

    id: str
    agent: str
    project: str | None
    peer: str | None
    level: str = Field(description="peer, project or agent: whom it belongs to")
    subject: str
    predicate: str
    value: str
    sentence: str
    kind: str
    confidence: str = Field(description="explicit or inferred")
    trust: str = Field(description="who said it: person, user, agent or tool")
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime = Field(description="when memory began to believe it")
    superseded_at: datetime | None
    superseded_by: str | None
    superseded_reason: Literal["replaced", "forgotten", "revision"] | None
    sessions: int = Field(description="distinct ones that support it")
    evidence: list[str] = Field(description="ids of candidates; `explain` shows their words")
    flagged: str | None = Field(description="why a person may want to review it")
    steers: int = Field(description="steers that said it")
    steers_succeeded: int = Field(description="those of them after which the task succeeded")
    steers_failed: int = Field(description="those of them after which the task failed")
    run_id: str | None
    cause: str = Field(description="what wrote it last: run, person, review or erasure")
    recalled: int
    last_recalled_at: datetime | None


class FactList(BaseModel):
    """Facts."""

    facts: list[Fact]


class Candidate(BaseModel):
    """A statement of one event, with its quote."""

    model_config = ConfigDict(extra="allow")

    id: str
    agent: str
    project: str | None
    peer: str | None
    sentence: str
    quote: str
    session_id: str
    seq: int
    quarantined: str | None = Field(description="why a person has to review it first")


class FactChange(BaseModel):
    """What a person's word did."""

    id: str = Field(description="of the fact that is told about; after a correction, of the new one")
    believed: bool = Field(description="whether memory believes it from now on, as far as nothing outranks it")


class CandidateList(BaseModel):
    """Statements that wait for a review."""

    candidates: list[Candidate]


class Learned(BaseModel):
    """A procedure or a solution."""

    id: str
    agent: str
    project: str | None
    body: dict[str, Any]
    learned_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    run_id: str | None
    cause: str
    audience: str


class Procedure(Learned):
    """Steps that sessions have in common."""

    title: str
    support: int = Field(description="distinct sessions that did it")
    rank: float
    worth: float


class ProcedureList(BaseModel):
    """Procedures, the best first."""

    procedures: list[Procedure]


class Solution(Learned):
    """An error and what resolved it; where it was looked up, `body.suggestion` is the fix for this case."""

    fingerprint: str
    tool: str
    headline: str
    confirmed: bool = Field(description="whether a fix worked in two sessions or more")
    sessions: int
    occurrences: int
    search: str


class SolutionList(BaseModel):
    """Solutions, the best first."""

    solutions: list[Solution]


class ChangedFact(Fact):
    """A fact that took another's place."""

    instead_of: str = Field(description="id of the fact that it replaced")
    before: str = Field(description="that fact's sentence")


class FailedAgain(Solution):
    """A solution whose error occurred again though its fix was known."""

    times: int
    in_sessions: int = Field(description="how many sessions that was in")


class Waiting(BaseModel):
    """How much waits for a person, whenever it came."""

    to_review: int
    flagged: int
    dead_letters: int
    calls: int
    rules: int = Field(description="what people repeat, to accept or dismiss")


class Steering(BaseModel):
    """Steers, and what became of the tasks that they were given in."""

    steers: int
    succeeded: int
    failed: int = Field(description="of the rest nobody knows")


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
    failed_again: list[FailedAgain] = Field(description="though a fix was known; only for who sees all of memory")
    limit: int = Field(description="of each kind")
    more: dict[str, int] = Field(description="how many of each kind the limit left out")
    waiting: Waiting | None


class RecallAnswer(BaseModel):
    """What memory knows about a query: a block for a prompt, and the same as cited items."""

    block: str
    items: list[dict[str, Any]]


class SuggestionList(BaseModel):
    """The calls that usually follow, the likeliest first."""

    suggestions: list[dict[str, Any]]


class Explanation(BaseModel):
    """What something learned rests on."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["fact", "procedure", "solution", "candidate"]
    title: str
    lines: list[str]
    evidence: list[dict[str, Any]]
    by: str


class ErrorLookup(Input):
    """An error to look up."""

    error: str = Field(min_length=1, max_length=100_000, description="the error's text as it came", examples=["EACCES"])
    tool: str | None = Field(default=None, max_length=200, description="the tool that failed")
    arguments: dict[str, Any] | None = Field(default=None, description="what it was given: some fixes change it")
    agent: str | None = Field(default=None, max_length=200)
    project: str | None = Field(default=None, max_length=1000)
    peer: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=5, ge=1, le=100)


class Statement(Input):
    """What memory is to remember, and of whom."""

    statement: str = Field(min_length=1, max_length=MAX_STATEMENT_CHARS, examples=["we use tabs"])
    agent: str | None = Field(default=None, max_length=200, description="by default the one that worked last")
    project: str | None = Field(default=None, max_length=1000, description="of which project; its path or its end")
    peer: str | None = Field(default=None, max_length=200, description="without a project: of which person")


class Forgetting(Input):
    """Which fact memory is to believe no more."""

    words: str = Field(
        min_length=1, max_length=1000, description="its id, how the id begins, or words that it alone has"
    )
    agent: str | None = Field(default=None, max_length=200)
    project: str | None = Field(default=None, max_length=1000)
    peer: str | None = Field(default=None, max_length=200)


class RememberedFact(BaseModel):
    """A fact as it was remembered or forgotten."""

    id: str
    statement: str
    scope: str = Field(description="project, peer or agent: whom it belongs to")
    agent: str
    project: str | None
    peer: str | None
    known: bool = Field(description="whether memory believed it before")
    session: str | None = Field(description="where the log has it, at `seq`")
    seq: int | None


class RuleQuote(BaseModel):
    """A person's words, and where they stand."""

    session_id: str
    origin: str | None
    seq: int
    quote: str
    occurred_at: datetime


class RuleProposal(BaseModel):
    """What people asked in several sessions, as a rule to accept or dismiss."""

    id: str
    rule: str
    sessions: int = Field(description="distinct ones in which it was asked; forks count as one")
    agent: str
    project: str | None
    peer: str | None
    believed: bool = Field(description="whether memory believes it already")
    quotes: list[RuleQuote]
    withheld: str | None = Field(None, description="why it is told to no agent before a person accepts it")


class RuleList(BaseModel):
    """What waits for a person's word, the most often asked first."""

    rules: list[RuleProposal]


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
