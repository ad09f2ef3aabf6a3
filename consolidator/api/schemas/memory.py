"""What memory tells: facts, procedures, solutions, recall, suggestions and explanations; and what a person tells it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from consolidator.api.schemas.rows import list_of, of_row
from consolidator.api.schemas.session import Input
from consolidator.models.fact import CandidateRow, FactRow
from consolidator.models.procedure import ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.models.steer import SteerCounts
from consolidator.service.memory.brief import BriefLine as BriefLineRow
from consolidator.service.memory.brief import BriefPreview
from consolidator.service.memory.facts import MAX_CORRECTION_LENGTH
from consolidator.service.memory.learned import ChangedFactRow, FailedAgainRow, WaitingCountsRow
from consolidator.service.memory.lessons import LessonRow
from consolidator.service.memory.remember import MAX_STATEMENT_CHARS, Remembered
from consolidator.service.memory.rules import RuleProposal as RuleProposalRow
from consolidator.service.memory.rules import RuleQuoteRow

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
    failed_again: list[FailedAgain] = Field(description="though a fix was known; only for who sees all of memory")
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


@of_row(Remembered)
class RememberedFact(BaseModel):
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
