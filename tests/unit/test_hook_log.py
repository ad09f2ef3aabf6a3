"""The log of the hook service: an error that nobody foresaw is written without the secrets in it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from consolidator.hooks.imports import TranscriptImports

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
