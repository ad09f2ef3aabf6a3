"""Branches: what they take, what they are, and how they compare with their session."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field

from consolidator.api.schemas.child import ChildOverrides, Position
from consolidator.api.schemas.rows import RowAnswer, list_of
from consolidator.api.schemas.session import Input
from consolidator.models.session import SessionRow
from consolidator.runtime.rerun.branches import (
    BranchComparison,
    BranchRequest,
    branch_kind,
    branch_status,
    committed_seq,
)


def _with_underscore(kind: Any) -> Any:
    """Return a kind as we write it: the specification has `pre-steer`."""
    return kind.replace("-", "_") if isinstance(kind, str) else kind


class NewBranch(Input):
    """What is to be tried in a branch, and from where."""

    kind: Annotated[Literal["sim", "pre_steer", "dream"], BeforeValidator(_with_underscore)] = Field(
        examples=["sim"],
        description="sim: anything; pre_steer: a steer before it is sent; dream: without the session's state",
    )
    message: str | None = Field(
        default=None, min_length=1, max_length=1_000_000, description="what it begins with; of a pre_steer, the steer"
    )
    at: Position | None = Field(default=None, description="seq; by default where nothing was open last")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)
    live_tools: bool = Field(default=False, description="run tools with side effects, too; otherwise they are dry runs")
    speaker: str | None = Field(default=None, max_length=200, description="who of a group says it")
    state: dict[str, Any] | None = Field(default=None, description="with which a dream begins; else with none")

    def to_request(self, name: str | None) -> BranchRequest:
        """Return it as the service takes it."""
        return BranchRequest(
            kind=self.kind,
            message=self.message,
            at=self.at,
            overrides=self.overrides.to_overrides(),
            live_tools=self.live_tools,
            speaker=self.speaker,
            name=name,
            state=self.state,
        )


class Figures(BaseModel):
    """What one side took after the point."""

    answers: int
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: str | None = Field(description="USD; null where the price of a model is unknown")


class Diff(BaseModel):
    """How two runs of the same messages differ."""

    is_empty: bool
    turns: int
    differences: list[dict[str, Any]] = Field(
        description="turns that are not the same: message, answers and figures of both sides, calls with arguments"
    )
    left: Figures
    right: Figures


class Comparison(BaseModel):
    """A branch (right) and its session (left), from the branch's point on."""

    branch: str
    main: str
    kind: str
    status: str = Field(description="running, waiting (for a person), failed, ready, committed or ended")
    after: int = Field(description="the last event that both have")
    is_whole: bool = Field(description="false where one has more events than are compared, or some are pruned")
    diff: Diff

    @classmethod
    def of(cls, compared: BranchComparison) -> Comparison:
        """Return a comparison as the API shows it."""
        return cls.model_validate(compared.as_json())


class NewRerun(Input):
    """From where a session is run again, and what is different."""

    from_message: Position | None = Field(default=None, description="seq; by default its own first")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)


class Rerun(BaseModel):
    """A rerun of a session: how far it is, and at its end what is different."""

    rerun_id: str = Field(description="the branch in which it runs")
    status: str = Field(description="running, done, failed; or unknown, after a restart of the service")
    messages: int | None = Field(description="that are said again")
    answered: int = Field(description="turns that have ended")
    finish_reason: str | None = Field(default=None, description="of the last turn")
    diff: Diff | None = Field(default=None, description="once it is not running any more")


class Branch(RowAnswer):
    """A branch of a session: it is never evidence of anything."""

    id: str
    main: str = Field(description="the session that it is a branch of")
    kind: str
    after: int = Field(description="seq of the last event before its own ones")
    status: str = Field(description="running, waiting (for a person), failed, ready, committed or ended")
    live_tools: bool
    committed_seq: int | None = Field(description="of the steer in the session, once it was sent")
    error: str | None
    head: int
    turns: int
    cost_usd: str
    created_at: datetime
    comparison: Comparison | None = Field(default=None, description="of a pre_steer branch, when it has been run")

    @classmethod
    def of(cls, row: SessionRow, compared: BranchComparison | None = None, **own: Any) -> Self:
        """Return a branch's row as the API shows it."""
        return super().of(
            row,
            main=row.parent_id or "",
            kind=branch_kind(row),
            after=row.base_seq,
            status=branch_status(row),
            live_tools=not row.is_dry_run,
            committed_seq=committed_seq(row),
            cost_usd=str(row.cost),
            comparison=None if compared is None else Comparison.of(compared),
            **own,
        )


BranchList = list_of("BranchList", "A session's branches, the newest first.", branches=Branch)
