"""An agent of the OpenAI Agents SDK whose conversations are in this log: `python examples/agents_sdk.py "hello"`.

It needs `pip install 'consolidator[agents]'`, and asks the model server that OPENAI_BASE_URL names.
"""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

from consolidator.integrations.openai_agents import ConsolidatorSession

set_tracing_disabled(True)  # else the SDK sends what it does to OpenAI


async def main(text: str) -> None:
    """Answer one message in the conversation of the key main:cli:mara, wherever it was left."""
    async with AsyncOpenAI() as client:
        model = OpenAIChatCompletionsModel(os.environ["CONSOLIDATOR_MODEL"], client)
        agent = Agent(name="assistant", model=model)
        session = ConsolidatorSession("main:cli:mara")
        result = await Runner.run(agent, text, session=session)
        print(result.final_output)
        print(f"[{len(await session.get_items())} items in the conversation]")


asyncio.run(main(sys.argv[1]))
