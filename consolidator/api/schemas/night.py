"""Runs of the nights' jobs, revisions and erasures, and the requests for them."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from consolidator.api.schemas.rows import list_of, of_row
from consolidator.api.schemas.session import Input
from consolidator.service.nights.runs import ListedRun, RevisionSummaryRow


@of_row(
    ListedRun,
    "run",
    leave_out="heartbeat_at owner arguments deaths units",
    seen="events: learned + nothing + deferred + dead",
)
class Run(BaseModel):
    """One execution of a job."""

    model_config = ConfigDict(extra="allow")


RunList = list_of("RunList", "Runs, the latest first.", runs=Run)


class RunDetails(Run):
    """A run with its units and dead letters."""

    claims: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]


class StartedRun(BaseModel):
    """A run that goes on after this answer."""

    run_id: str | None = Field(description="null: there was nothing to do, or another replica does its work first")


class NewRun(Input):
    """A job to run now: its scheduled run if that is due, else an unscheduled one."""

    job: Literal["import", "consolidation", "retention"]
    older_than_days: int | None = Field(default=None, ge=1, le=36_500, description="retention: prune what is older")
    force: bool = Field(default=False, description="retention: although the clock or the amount seems wrong")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.older_than_days is not None or self.force) and self.job != "retention":
            raise ValueError("older_than_days and force are options of the job retention")
        return self


class NewBackfill(Input):
    """Which sessions to consolidate now, or to derive again."""

    session: str | None = Field(default=None, min_length=1, max_length=200)
    agent: str | None = Field(default=None, min_length=1, max_length=1000)
    since: AwareDatetime | None = Field(default=None, description="only sessions active since")
    until: AwareDatetime | None = Field(default=None, description="only sessions last active before")
    only: Literal["facts", "procedures", "solutions"] | None = Field(default=None, description="derive these again")
    reprocess: bool = Field(default=False, description="derive again what was learned already")
    model: str | None = Field(default=None, min_length=1, max_length=200, description="with reprocess: into a draft")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model is not None and (not self.reprocess or self.only is not None):
            raise ValueError("model goes with reprocess, and without only")
        return self


class Retry(Input):
    """Dead letters to learn from again."""

    id: str | None = Field(default=None, min_length=1, max_length=200, description="a dead letter or a run; else all")
    discard: bool = Field(default=False, description="give them up")


class Erase(Input):
    """Sessions to erase for good: one with its descendants, or all of a peer."""

    session: str | None = Field(default=None, min_length=1, max_length=200, description="a session's whole id")
    peer: str | None = Field(default=None, min_length=1, max_length=1000)
    reason: str = Field(default="asked to", min_length=1, max_length=1000, description="for the record")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.session is None) == (self.peer is None):
            raise ValueError("name either session or peer")
        return self


class Erased(BaseModel):
    """What was erased."""

    sessions: int
    events: int
    store_items: int
    """Of a peer: what programs kept under a namespace with this name."""


@of_row(RevisionSummaryRow, "revision", leave_out="choice")
class Revision(BaseModel):
    """A revision of the facts, and how much it has read."""

    model_config = ConfigDict(extra="allow")

    model: str | None


RevisionList = list_of("RevisionList", "Revisions, the latest first.", revisions=Revision)


class RevisionComparison(BaseModel):
    """What promoting a draft would do to the facts."""

    revision: int
    model: str | None
    status: str
    added: list[str] = Field(description="sentences")
    lost: list[str]
    changed: list[list[str]] = Field(description="the sentence before, and after")
    kept: int
