"""The log of the hook service: an error that nobody foresaw is written without the secrets in it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from consolidator.errors import ConsolidatorError
from consolidator.hooks.background import IdleNights, TranscriptImports

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


async def test_a_failed_import_is_logged_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"password={SECRET}")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
    transcript = tmp_path / "s.jsonl"
    transcript.touch()
    payload = {"hook_event_name": "SessionEnd", "session_id": "s", "cwd": "/", "transcript_path": str(transcript)}
    imports = TranscriptImports(cast(Any, None))
    imports.add_order(b"claude-code SessionEnd\n" + json.dumps(payload).encode())
    await imports.close()
    await imports.run()
    assert "cannot import" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("error", [ConsolidatorError, RuntimeError])
async def test_a_night_that_cannot_be_run_is_logged_without_secrets(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise error(f"cannot connect with password={SECRET}")

    await IdleNights(cast(Any, None), cast(Any, None))._guard(fail())
    assert "a night could not be run" in caplog.text
    assert SECRET not in caplog.text
