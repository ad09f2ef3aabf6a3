"""Answers calls from a recording: the same tool with the same arguments has the result that it had."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from consolidator.runtime.rerun.comparison import canonical_arguments
from consolidator.runtime.session.outcome import Outcome
from consolidator.runtime.tools.arguments import BoundCall
from consolidator.runtime.tools.tool import CallContext, Tool, Toolbox

LoadResult = Callable[[int], Awaitable[Outcome | None]]  # the result that the log has at a seq
Advance = Callable[[int], Awaitable[None]]  # has happen what the log has before a seq


@dataclass(slots=True)
class Recording:
    """The results of a session's calls, each to be used once, in their order."""

    load: LoadResult
    advance: Advance | None = None
    _seqs: dict[tuple[str, str], deque[int]] = field(default_factory=dict)
    used: int = 0
    missed: int = 0  # calls that the recording does not have, or not so often

    def add(self, tool: str, arguments: Any, result_seq: int) -> None:
        """Note that a call has its result at a seq."""
        self._seqs.setdefault((tool, canonical_arguments(arguments)), deque()).append(result_seq)

    async def take(self, tool: str, arguments: Any) -> Outcome | None:
        """Return the next recorded result of a call; None where there is none left."""
        seq = await self.pass_by(tool, arguments)
        outcome = None if seq is None else await self.load(seq)
        if outcome is None:
            self.missed += 1
        else:
            self.used += 1
        return outcome

    async def pass_by(self, tool: str, arguments: Any) -> int | None:
        """Return the seq of the next recorded result of a call, after what came before it; None where there is none."""
        seqs = self._seqs.get((tool, canonical_arguments(arguments)))
        if not seqs:
            return None
        seq = seqs.popleft()
        if self.advance is not None:
            await self.advance(seq)
        return seq


class RecordedToolbox(Toolbox):
    """Tools whose calls are answered from a recording; a call that it does not have is not run.

    With `live` such a call does run where its tool has no side effect. What changes only the session itself, always.
    """

    def __init__(self, tools: Iterable[Tool], recording: Recording, *, live: bool = False) -> None:
        super().__init__(replace(tool, needs_approval=False) for tool in tools)  # nothing happens that needs one
        self.recording = recording
        self._live = live

    def limited(self, names: Iterable[str] | None) -> RecordedToolbox:
        """Return the toolbox with those tools alone; with None, itself."""
        if names is None:
            return self
        allowed = set(names)
        kept = [tool for name in self.names if name in allowed and (tool := self.get(name))]
        return RecordedToolbox(kept, self.recording, live=self._live)

    def in_dry_run(self) -> RecordedToolbox:
        """Return itself: what the recording does not answer is a dry run already."""
        return self

    async def run(self, name: str, arguments: str | Mapping[str, Any] | None, call: CallContext) -> Outcome:
        """Answer a call from the recording, else as a dry run."""
        tool = self.get(name)
        if tool is not None and tool.changes_session:
            await self.recording.pass_by(name, arguments)
            return await super().run(name, arguments, call)
        recorded = await self.recording.take(name, arguments)
        if recorded is not None:
            return recorded
        if tool is not None and not (self._live and not tool.side_effect):
            text = canonical_arguments(arguments)
            return Outcome(f"Dry run: {name} was not run. It would have been called with {text}.")
        return await super().run(name, arguments, call)


def stand_in(name: str) -> Tool:
    """Return a tool that is known by its name alone: it takes any arguments, and runs nothing."""

    def run_nothing() -> None:
        """A tool of the recorded session."""

    def bind(arguments: Mapping[str, Any], call: CallContext) -> BoundCall:
        return run_nothing

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool(name, "A tool of the recorded session.", schema, run_nothing, bind)
