"""Tools of one's own, one of each kind: consolidator chat --tools examples/mytools.py"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from consolidator import CallContext, tool

NOTES = Path("notes.jsonl")


@tool(side_effect=False)
async def git_diff(ref: Annotated[str, Field(description="a revision, such as HEAD")] = "HEAD") -> str:
    """The diff of the working tree against a revision."""
    git = await asyncio.create_subprocess_exec(
        "git", "diff", "--stat", ref, "--", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await git.communicate()
    if git.returncode:
        raise RuntimeError(out.decode().splitlines()[0])  # what a tool raises, the model is told
    return out.decode() or "no changes"


@tool(idempotent=True)
def note(text: str, call: CallContext) -> str:
    """Keep a note."""
    # After a crash the call is run again under the same call_id: what was done is found by it, and not done twice.
    kept = [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []
    if all(one["call_id"] != call.call_id for one in kept):
        with NOTES.open("a") as file:
            file.write(json.dumps({"call_id": call.call_id, "text": text}) + "\n")
    return f"kept, with {len(kept)} earlier notes"


@tool(needs_approval=True, timeout=600)
async def deploy(version: str) -> str:
    """Deploy a version to production."""
    # Neither idempotent nor harmless: a person allows it, and where a crash leaves it in doubt, a person settles it.
    await asyncio.sleep(3)
    return f"version {version} is live"
