"""What is asked of a sub-agent, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from consolidator.errors import UsageError
from consolidator.models.seed import Seed, SeedRole
from consolidator.runtime.session.overrides import Overrides

ResultMode = Literal["summary", "full"]
RESULT_MODES: tuple[ResultMode, ...] = get_args(ResultMode)
SpawnedBy = Literal["agent", "program"]
SPAWN_TOOL = "spawn_agent"
SYSTEM_PROMPT = (
    "You are a sub-agent: another agent has given you one task. You see nothing of its conversation but what is "
    "written here, and nobody answers questions. Do the task with the tools that you have. Your last answer is "
    "all that the other agent is told: say what you found or did, and what is left open."
)
_MAX_MESSAGES, _MAX_CHARACTERS = 1000, 1_000_000  # of a context
_MAX_TASK = 200_000  # characters
_ROLES: tuple[SeedRole, ...] = ("user", "assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """A task for a sub-agent, and what it may use; it sees nothing else of its parent.

    `model` None leaves the choice to the routing policy, which sends spawned work to the cheap model. `context` is a
    text, or messages with `role` and `content`. `tools` names some of the parent's tools; None is all that need
    nobody's approval. `max_tokens` bounds each answer, `max_cost` (USD) all of them. Raises UsageError for what no
    sub-agent could run with.
    """

    task: str
    model: str | None = None
    context: str | Sequence[Mapping[str, Any]] | None = None
    tools: Sequence[str] | None = None
    mode: ResultMode = "summary"
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    system: str | None = None

    def __post_init__(self) -> None:
        if not self.task.strip():
            raise UsageError("the task is blank: say what the sub-agent is to do")
        if len(self.task) > _MAX_TASK:
            raise UsageError(
                f"the task has {len(self.task):,} characters, over {_MAX_TASK:,}: put texts into the context"
            )
        if self.mode not in RESULT_MODES:
            raise UsageError(f"a result is one of {', '.join(RESULT_MODES)}, not {self.mode!r}")
        self.overrides()
        self.seeds()

    def overrides(self, model: str | None = None, tools: Sequence[str] | None = None) -> Overrides:
        """Return what the sub-agent does differently from its parent."""
        return Overrides(
            model=self.model or model,
            system=self.system or SYSTEM_PROMPT,
            tools=self.tools if tools is None else tools,
            answer_tokens=self.max_tokens,
            max_cost=self.max_cost,
        )

    def seeds(self) -> tuple[Seed, ...]:
        """Return the context as the sub-agent's earlier thread."""
        if not self.context:
            return ()
        if isinstance(self.context, str):
            messages: list[Seed] = [Seed("user", self.context, is_new=True)]
        else:
            messages = [_to_seed(message) for message in self.context]
        size = sum(len(message.content) for message in messages)
        if len(messages) > _MAX_MESSAGES or size > _MAX_CHARACTERS:
            raise UsageError(
                f"the context has {len(messages):,} messages and {size:,} characters, and may have "
                f"{_MAX_MESSAGES:,} and {_MAX_CHARACTERS:,}"
            )
        return tuple(messages)


def _to_seed(message: Mapping[str, Any]) -> Seed:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES or not isinstance(content, str):
        raise UsageError("a message of the context has a role (user, assistant or tool) and a content, which is a text")
    return Seed(role, content, is_new=True)


@dataclass(frozen=True, slots=True)
class SpawnResult:
    """What came of a sub-agent: `text` is its last answer, or with the mode `full` all that it did."""

    session_id: str
    call_id: str
    status: Literal["ok", "error"]
    text: str
    reason: str | None = None  # why there is no answer, or none to rely on
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)  # USD
