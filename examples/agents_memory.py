"""An agent of the OpenAI Agents SDK with memory as its tools: `python examples/agents_memory.py "remember ..."`.

It needs `pip install 'consolidator[agents]'`, and asks the model server that OPENAI_BASE_URL names.
"""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

from consolidator import Memory
from consolidator.integrations.openai_agents import memory_tools

set_tracing_disabled(True)  # else the SDK sends what it does to OpenAI


async def main(text: str) -> None:
    """Answer one message; the model may ask memory, and have something remembered."""
    async with Memory(agent="assistant") as memory, AsyncOpenAI() as client:
        model = OpenAIChatCompletionsModel(os.environ["CONSOLIDATOR_MODEL"], client)
        agent = Agent(name="assistant", model=model, tools=memory_tools(memory))
        print((await Runner.run(agent, text)).final_output)
        print([fact.sentence for fact in await memory.facts()])


asyncio.run(main(sys.argv[1]))
