"""Checkpoints, forks, restores and bundles: what they take and what they are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from consolidator.api.schemas.rows import RowAnswer, list_of, of_row
from consolidator.api.schemas.session import SPECIFIED, Input, RequestOptions
from consolidator.api.schemas.specification import accept_members
from consolidator.models.checkpoint import CheckpointRow
from consolidator.runtime.session.agent_defaults import MAX_SECONDS, Overrides
from consolidator.service.sessions import bundles

# What an imported fork copied of other logs has seqs of 0 and below.
Position = Annotated[int, Field(ge=1 - 2**53, le=2**53 - 1)]


class PromptPatch(Input):
    """Changes of the inherited system prompt."""

    prepend: str | None = Field(default=None, max_length=200_000)
    append: str | None = Field(default=None, max_length=200_000)
    replace: dict[str, str] | None = Field(default=None, description="each old text, which must be there, by a new one")


class ChildOverrides(RequestOptions):
    """What a child does differently from its parent; null is inherited."""

    _accept_specification = accept_members(SPECIFIED)

    system: str | None = Field(default=None, max_length=200_000)
    prompt_patch: PromptPatch | None = None
    budget: int | None = Field(default=None, ge=1, le=10_000_000)
    last: int | None = Field(default=None, ge=1, le=100_000)

    def to_overrides(self) -> Overrides:
        """Return them as the runtime takes them."""
        named = self.named("prompt_patch") | {"tools": self.tools}
        patch = None if self.prompt_patch is None else self.prompt_patch.model_dump(exclude_none=True)
        return Overrides(**named, prompt_patch=patch, max_cost=self.max_cost_usd)


class NewCheckpoint(Input):
    """A point of a session to come back to."""

    label: str | None = Field(default=None, min_length=1, max_length=200, examples=["before the migration"])
    metadata: dict[str, Any] | None = None
    at: Position | None = Field(default=None, description="seq; by default where nothing was open last")
    ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS, description="by default the agent's, or a day")


@of_row(CheckpointRow, "checkpoint", leave_out="fold")
class Checkpoint(RowAnswer):
    """A checkpoint: it keeps from retention what a restore needs, until it expires."""


CheckpointList = list_of("CheckpointList", "A session's checkpoints, the latest point first.", checkpoints=Checkpoint)


class Restore(Input):
    """Which checkpoint a session goes on from, and how."""

    _accept_specification = accept_members({"config_override": "overrides"})

    checkpoint_id: str | None = Field(default=None, max_length=200, description="by default the latest of the session")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)
    is_current: bool = Field(default=False, description="whether the session's key names the new one from now on")


class Fork(Input):
    """Where a session is left, and what the child does differently."""

    at: Position | None = Field(default=None, description="seq; by default where nothing was open last")
    overrides: ChildOverrides = Field(default_factory=ChildOverrides)
    is_current: bool = Field(default=False, description="whether the session's key names the child from now on")
    same_conversation: bool = Field(default=False, description="by default it begins a conversation of its own")


@of_row(bundles.ImportedBundle)
class ImportedBundle(RowAnswer):
    """An imported bundle."""
