"""A Pydantic AI agent with memory: `python examples/pydantic_ai_memory.py "when do we deploy?"`.

It needs `pip install 'consolidator[pydantic-ai]'`, and asks the model server that OPENAI_BASE_URL names.
"""

import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from consolidator import Memory
from consolidator.integrations.pydantic_ai import MemoryCapability


async def main(text: str) -> None:
    """Answer one message with what is known about it."""
    async with Memory(agent="assistant") as memory:
        await memory.remember("we deploy on Tuesdays")
        model = OpenAIChatModel(os.environ["CONSOLIDATOR_MODEL"])
        agent = Agent(model, capabilities=[MemoryCapability(memory)])
        print((await agent.run(text)).output)


asyncio.run(main(sys.argv[1]))
