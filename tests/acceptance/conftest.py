"""The command line on a test's database."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.acceptance.command_line import CommandLine


@pytest.fixture
def cli(
    environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line on the test's database."""
    for name, value in environment.items():
        if name.startswith(("CONSOLIDATOR_", "HOME")):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    return CommandLine(capsys, monkeypatch)
