"""/v1/agents: the defaults of agents' sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply, to_answer
from consolidator.api.schemas.session import Agent, AgentChange, AgentList, AgentVersion, AgentVersionList
from consolidator.service.requests import Answer
from consolidator.service.sessions import agents

router = APIRouter(tags=["agents"])
AgentName = Annotated[str, Path(min_length=1, max_length=200, description="an agent's name", examples=["main"])]


@router.get("/agents", **operation("read", AgentList))
async def list_agents(call: Reading, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> Response:
    """List the agents that have defaults, by name."""
    rows = await agents.list_agents(call.database, limit=limit, viewer=call.viewer)
    return reply(AgentList.model_construct(agents=[Agent.of(row) for row in rows]))


@router.get("/agents/{agent_name}", **operation("read", Agent))
async def get_agent(call: Reading, agent_name: AgentName) -> Response:
    """Show an agent's defaults."""
    return reply(Agent.of(await agents.get_agent(call.database, agent_name, viewer=call.viewer)))


@router.get("/agents/{agent_name}/versions", **operation("read", AgentVersionList))
async def list_agent_versions(
    call: Reading, agent_name: AgentName, limit: Annotated[int, Query(ge=1, le=200)] = 20
) -> Response:
    """List the versions of an agent's defaults, the latest first, also of one that was deleted."""
    rows = await agents.list_agent_versions(call.database, agent_name, limit=limit, viewer=call.viewer)
    return reply(AgentVersionList(versions=[AgentVersion(**asdict(row)) for row in rows]))


@router.patch("/agents/{agent_name}", **operation("admin", Agent))
async def change_agent(call: Writing, agent_name: AgentName, body: AgentChange) -> Response:
    """Change an agent's defaults, or set the first ones. Sessions that exist keep what they have."""
    return await call.change(
        lambda row: to_answer(Agent.of(row)), agents.change_agent, agent_name, body.to_changes(), viewer=call.viewer
    )


@router.delete("/agents/{agent_name}", **operation("admin", None, 204))
async def delete_agent(call: Writing, agent_name: AgentName) -> Response:
    """Delete an agent's defaults; its sessions and the history of its versions stay."""
    return await call.change(lambda _: Answer(204, ""), agents.delete_agent, agent_name, viewer=call.viewer)
