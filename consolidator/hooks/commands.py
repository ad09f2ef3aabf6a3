"""Runs a command of ours at low priority, in a process of its own: what takes long must not delay an answer."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from consolidator.llm.redaction.redact import redact

NICE = 10
MAX_ERROR = 500  # characters
log = logging.getLogger("consolidator.hooks")


async def run_command(*arguments: str, seconds: float) -> bool:
    """Run `consolidator ARGUMENTS`; tell whether it ended well. One that takes longer than `seconds` is ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "consolidator", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: os.nice(NICE),
    )
    try:
        async with asyncio.timeout(seconds):
            _, errors = await process.communicate()
    except TimeoutError:
        log.warning("`consolidator %s` took more than %s seconds", " ".join(arguments), seconds)
        return False
    finally:
        if process.returncode is None:
            process.terminate()  # it hands its work back
            await process.wait()
    if process.returncode:
        message = redact(errors.decode("utf-8", "replace").strip())[-MAX_ERROR:]
        log.warning("`consolidator %s` failed: %s", " ".join(arguments), message)
    return not process.returncode
