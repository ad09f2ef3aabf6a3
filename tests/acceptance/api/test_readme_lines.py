"""The README's lines for programs and the lines of the page about HTTP do what they say, run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from consolidator.testing import ScriptedReply
from tests.acceptance.api.server import answer_models
from tests.support import PATIENCE, free_port

README = Path(__file__).parents[3] / "README.md"
HTTP_PAGE = README.parent / "docs/http.md"


def test_the_lines_for_programs_print_what_they_were_told(
    environment: dict[str, str], dsn: str, tmp_path: Path
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (script,) = (block for block in blocks if "from consolidator import Memory" in block)
    own = {**environment, "CONSOLIDATOR_DATABASE_URL": dsn}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=own, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert "- We deploy on Tuesdays. (said " in done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_lines_of_the_page_open_a_session_and_stream_an_answer(
    environment: dict[str, str], dsn: str, tmp_path: Path
) -> None:
    section = HTTP_PAGE.read_text(encoding="utf-8").partition("## In one go")[2]
    lines = re.search(r"```\w*\n(.*?)```", section, re.DOTALL)
    assert lines is not None
    script = re.sub(r"^export .*$", "", lines[1], flags=re.MULTILINE)
    with free_port() as port, answer_models(lambda _: ScriptedReply(text="Good day to you.")) as model:
        own = {
            **environment,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
            "CONSOLIDATOR_DATABASE_URL": dsn,
            "CONSOLIDATOR_HEALTH_PORT": str(port),
            "CONSOLIDATOR_MODEL": "stand-in",
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "none",
        }
        # The service ends with the shell that started it.
        command = ["bash", "-c", f"trap 'kill %1; wait' EXIT\n{script.replace('8377', str(port))}"]
        done = subprocess.run(
            command, env=own, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    assert "Good day to you." in done.stdout, done.stderr
    assert done.stdout.rstrip().endswith("}")
    assert "event: end" in done.stdout
