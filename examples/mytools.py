"""Tools of your own, one of each kind: consolidator chat --tools examples/mytools.py"""

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
    output, _ = await git.communicate()
    if git.returncode:
        raise RuntimeError(output.decode().splitlines()[0])  # the model gets the error text
    return output.decode() or "no changes"


@tool(idempotent=True)
def note(text: str, call: CallContext) -> str:
    """Keep a note."""
    # After a crash the call runs again with the same call_id, by which it sees that the note is already stored.
    notes = [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []
    if all(entry["call_id"] != call.call_id for entry in notes):
        with NOTES.open("a") as file:
            file.write(json.dumps({"call_id": call.call_id, "text": text}) + "\n")
    return f"kept, with {len(notes)} earlier notes"


@tool(needs_approval=True, timeout=600)
async def deploy(version: str) -> str:
    """Deploy a version to production."""
    # It has a side effect and is not idempotent: a person approves it, and resolves it if a crash leaves it in doubt.
    await asyncio.sleep(3)
    return f"version {version} is live"
