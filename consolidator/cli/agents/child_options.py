"""What a child of a session does differently, as options: one definition for fork, branch and restore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from consolidator.cli.agents.session_options import AddPrompt, PromptOptions, Threshold
from consolidator.runtime.session.overrides import Overrides

At = Annotated[int | None, typer.Option(help="After this event (seq); by default the latest at which nothing is open.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions(PromptOptions):
    """What a child of a session does differently."""

    add_prompt: AddPrompt = None
    compaction_threshold: Threshold = None

    def to_overrides(self) -> Overrides:
        """Return what the child does differently. Raises UsageError for what no session could run with."""
        patch = None if self.add_prompt is None else {"append": self.add_prompt}
        return Overrides(prompt_patch=patch, compaction_threshold=self.compaction_threshold, **self.values())
