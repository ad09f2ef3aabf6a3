"""/v1/agents: the defaults of agents' sessions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from consolidator.api.call import Reading, Writing, operation, reply
from consolidator.api.parameters import Limit
from consolidator.api.schemas import ModelOptions, RowAnswer, list_of, of_row
from consolidator.models.agent import AgentRow, AgentVersionRow
from consolidator.runtime.session.agent_defaults import MAX_SECONDS
from consolidator.service.sessions import agents

router = APIRouter(tags=["agents"])


class AgentChange(ModelOptions):
    """What is changed of an agent's defaults: a member that is null is unset, one that is left out stays."""

    model: str | None = Field(default=None, max_length=200, description="or `auto`", examples=["gpt-4o-mini"])
    system_prompt: str | None = Field(default=None, max_length=200_000)
    budget: int | None = Field(default=None, ge=1, le=100_000_000)
    last: int | None = Field(default=None, ge=1, le=100_000)
    session_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    checkpoint_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    retention_days: int | None = Field(default=None, ge=1, le=36_500)
    tier: str | None = Field(default=None, max_length=200, description="an agent: its defaults, where it has none")

    def to_changes(self) -> dict[str, Any]:
        """Return what was named."""
        changes = self.model_dump(exclude_unset=True)
        if "max_cost_usd" in changes:
            changes["max_cost"] = changes.pop("max_cost_usd")
        if changes.get("tools") is not None:
            changes["tools"] = tuple(changes["tools"])
        if "parameters" in changes and changes["parameters"] is None:
            changes["parameters"] = {}
        return changes


@of_row(AgentRow, "agent", leave_out="max_cost")
class Agent(RowAnswer):
    """An agent's defaults as they stand."""

    max_cost_usd: str | None = Field(description="what one session may cost")


AgentList = list_of("AgentList", "Agents that have defaults, by name.", agents=Agent)


@of_row(AgentVersionRow, "agent_version", definition="empty where the defaults were deleted")
class AgentVersion(RowAnswer):
    """A version of an agent's defaults."""


AgentVersionList = list_of(
    "AgentVersionList", "The versions of an agent's defaults, the latest first.", versions=AgentVersion
)

AgentName = Annotated[str, Path(min_length=1, max_length=200, description="an agent's name", examples=["main"])]


@router.get("/agents", **operation("read", AgentList))
async def list_agents(call: Reading, limit: Limit = 100) -> Response:
    """List the agents that have defaults, by name."""
    rows = await agents.list_agents(call.database, limit=limit, viewer=call.viewer)
    return reply({"agents": [Agent.of(row) for row in rows]})


@router.get("/agents/{agent_name}", **operation("read", Agent))
async def get_agent(call: Reading, agent_name: AgentName) -> Response:
    """Show an agent's defaults."""
    return reply(Agent.of(await agents.get_agent(call.database, agent_name, viewer=call.viewer)))


@router.get("/agents/{agent_name}/versions", **operation("read", AgentVersionList))
async def list_agent_versions(call: Reading, agent_name: AgentName, limit: Limit = 20) -> Response:
    """List the versions of an agent's defaults, the latest first, also of one that was deleted."""
    rows = await agents.list_agent_versions(call.database, agent_name, limit=limit, viewer=call.viewer)
    return reply({"versions": [AgentVersion.of(row) for row in rows]})


@router.patch("/agents/{agent_name}", **operation("admin", Agent))
async def change_agent(call: Writing, agent_name: AgentName, body: AgentChange) -> Response:
    """Change an agent's defaults, or set the first ones. Sessions that exist keep what they have."""
    return await call.change(Agent.of, agents.change_agent, agent_name, body.to_changes())


@router.delete("/agents/{agent_name}", **operation("admin", None, 204))
async def delete_agent(call: Writing, agent_name: AgentName) -> Response:
    """Delete an agent's defaults; its sessions and the history of its versions stay."""
    return await call.change(lambda _: None, agents.delete_agent, agent_name)
