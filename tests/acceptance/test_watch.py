"""`serve --watch`: what a session showed is in the next one's brief before any night, and nights change nothing."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from consolidator.database import Database
from tests.acceptance.claude_home import PROJECT, ClaudeSession, wait_for
from tests.nights import start_cli, wait_until_counted
from tests.support import PATIENCE, in_thread, read_memory, run_here

NO_WRAPPER = "Exit code 2\nerror: unrecognized subcommand 'pnpm'"
ENDED = "select count(*) from run where status = 'done' and trigger = 'watch'"


def write_session(home: Path, name: str) -> None:
    """Leave the log of a session whose agent met a wrapper that cannot run a program."""
    session = ClaudeSession(name).say("Run the tests.").call(f"{name}-1", "wrap pnpm run test", NO_WRAPPER, failed=True)
    session.call(f"{name}-2", "pnpm run test", "12 passed").write(home)


async def test_one_agents_failure_is_in_the_next_ones_brief_before_a_night(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    settings = {
        "CONSOLIDATOR_SOURCES": json.dumps([f"claude-code:{tmp_path}/.claude/projects"]),
        "CONSOLIDATOR_HEALTH_PORT": "0",
        "CONSOLIDATOR_MODEL": "a-model-that-is-not-asked",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "none",
    }
    environment = environment | settings

    def start_brief() -> str:
        asked: dict[str, Any] = json.loads(
            run_here("brief", "--project", PROJECT, "--agent", "codex", "--json", environment=environment).stdout
        )
        return str(asked["text"])

    with start_cli("serve", "--watch", environment=environment) as service:
        assert service.stderr is not None
        assert await in_thread(lambda lines: any("retention:" in line for line in lines), service.stderr)
        for name in ("one", "two", "three"):
            write_session(tmp_path, name)
        await wait_until_counted(database, "select count(*) from lesson")
        assert "`wrap pnpm …` always fails" in await in_thread(wait_for, lambda: start_brief())
        await wait_until_counted(database, ENDED)
        service.send_signal(signal.SIGTERM)
        await in_thread(service.communicate, PATIENCE)
    assert service.returncode == 0
    kinds = ("lesson", "solution", "procedure")
    before = await read_memory(database)
    del environment["CONSOLIDATOR_MODEL"]
    night = run_here("run", "consolidation", environment=environment | {"CONSOLIDATOR_QUIET_MINUTES": "0"})
    assert night.stdout.startswith("consolidation: ")
    after = await read_memory(database)
    assert {kind: before[kind] for kind in kinds} == {kind: after[kind] for kind in kinds}
    assert before["lesson"]
