"""An agent of the OpenAI Agents SDK over the service's database: its conversation is one of the service's sessions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from consolidator.clock import FrozenClock
from consolidator.settings import Settings
from consolidator.testing import ModelServer
from tests.acceptance.api.server import ApiServer, answer_models
from tests.conftest import NOON
from tests.support import PATIENCE, run_job

pytestmark = pytest.mark.skipif(find_spec("agents") is None, reason="the OpenAI Agents SDK is not installed")
EXAMPLE = Path(__file__).parents[3] / "examples" / "agents_sdk.py"
TEXTS = ("From now on, always use tabs.", "What did I say?")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """The model that the SDK asks; the service has none."""
    with answer_models(lambda request: f"Answer {len(request['messages'])}.") as server:
        yield server


def test_what_the_sdk_ran_is_read_over_http_and_learned_from(
    api: ApiServer, model: ModelServer, environment: dict[str, str], tmp_path: Path
) -> None:
    own = {
        **environment,
        "CONSOLIDATOR_DATABASE_URL": api.dsn,
        "CONSOLIDATOR_MODEL": "stand-in",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "none",
        "PYTHONWARNINGS": "default::ResourceWarning",  # the SDK and its libraries warn of their own
    }
    for text in TEXTS:  # a process each
        command = [sys.executable, str(EXAMPLE), text]
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    with api.client() as owner:
        (session,) = owner.get("/sessions", params={"key": "main:cli:mara"}).json()["sessions"]
        path = f"/sessions/{session['id']}"
        events = owner.get(f"{path}/events").raise_for_status().json()["events"]
        said = [(event["type"], event["data"]["text"]) for event in events if event["data"].get("text")]
        assert said == [
            ("UserMessage", TEXTS[0]),
            ("AssistantResponse", "Answer 1."),
            ("UserMessage", TEXTS[1]),
            ("AssistantResponse", "Answer 3."),
        ]
        shown = owner.get(f"{path}/hydrate").raise_for_status().json()
        assert [message["data"].get("text") for message in shown["messages"]] == [text for _, text in said]
        assert shown["session"] == session
        # Another harness drives it: a message of ours would not be answered.
        assert owner.post(f"{path}/messages", json={"text": "Hello"}).status_code == 409
        night = Settings(home=tmp_path, health_port=0)
        api.run(lambda database: run_job(database, night), FrozenClock(NOON + timedelta(days=1)))
        (fact,) = owner.get("/facts").raise_for_status().json()["facts"]
        assert "always use tabs" in str(fact)
        evidence = owner.get(f"/explain/{fact['id']}").raise_for_status().json()["evidence"]
        assert [source["session_id"] for source in evidence] == [session["id"]]
