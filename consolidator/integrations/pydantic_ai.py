"""Memory for agents of Pydantic AI: `Agent(..., capabilities=[MemoryCapability(Memory())])`."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from consolidator.errors import ConsolidatorError, UsageError
from consolidator.integrations.memory_tools import MemoryTools
from consolidator.library.memory import Memory

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise UsageError("this needs Pydantic AI: pip install 'consolidator[pydantic-ai]'") from error

log = logging.getLogger("consolidator.integrations")
PROMPT_TOKENS = 400
TOOLSET_ID = "consolidator-memory"


def memory_toolset(memory: Memory) -> FunctionToolset[Any]:
    """Return the tools of a memory: `Agent(..., toolsets=[memory_toolset(Memory())])`."""
    return FunctionToolset(MemoryTools(memory).list_functions(), id=TOOLSET_ID)


@dataclass
class MemoryCapability(AbstractCapability[AgentDepsT]):
    """The tools of a memory, and what it knows about a prompt before the model answers it.

    What is recalled stands before the prompt in what the model is sent, fenced as data; it is no instruction, and not
    part of the conversation that is kept. With `token_budget` 0 nothing is recalled unless the model asks.
    """

    memory: Memory
    _: KW_ONLY
    token_budget: int = PROMPT_TOKENS
    id: str | None = TOOLSET_ID
    _recalled: dict[str, str] = field(default_factory=dict, init=False, repr=False)  # of this run, by prompt

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> MemoryCapability[AgentDepsT]:
        """Return a copy for one run, which recalls once for each prompt of it."""
        return replace(self)

    def get_toolset(self) -> FunctionToolset[AgentDepsT]:
        """Return the tools."""
        return memory_toolset(self.memory)

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put what is known about the latest prompt before it, in this request alone."""
        place, prompt = _find_latest_prompt(request_context.messages)
        if self.token_budget <= 0 or not prompt:
            return request_context
        if prompt not in self._recalled:
            self._recalled[prompt] = await self._recall(prompt)
        block = self._recalled[prompt]
        if not block:
            return request_context
        message = request_context.messages[place]
        assert isinstance(message, ModelRequest)
        messages = list(request_context.messages)
        messages[place] = replace(message, parts=[UserPromptPart(block), *message.parts])
        return replace(request_context, messages=messages)

    async def _recall(self, prompt: str) -> str:
        """Return what is known about a prompt; "" also where memory fails, without which the agent goes on."""
        try:
            return (await self.memory.recall(prompt, token_budget=self.token_budget)).block
        except ConsolidatorError as error:
            log.warning("nothing was recalled: %s", error)
            return ""


def _find_latest_prompt(messages: list[ModelMessage]) -> tuple[int, str]:
    """Return the place of the latest message with a prompt, and its words; "" where there is none."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelRequest):
            words = [_read_words(part) for part in message.parts if isinstance(part, UserPromptPart)]
            if any(words):
                return place, "\n".join(filter(None, words))
    return 0, ""


def _read_words(part: UserPromptPart) -> str:
    """Return what a prompt says, without its pictures and files."""
    if isinstance(part.content, str):
        return part.content
    return "\n".join(piece for piece in part.content if isinstance(piece, str))
