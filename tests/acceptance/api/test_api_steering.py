"""Steers over HTTP: what a person says while a task runs is learned from with what became of the task."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from consolidator.clock import FrozenClock
from consolidator.settings import Settings
from tests.acceptance.api.server import ApiServer
from tests.conftest import NOON
from tests.support import run_here, run_job


def run_night(api: ApiServer, home: Path, *, hours: int) -> None:
    """Run a night some hours after the service's present."""
    settings = Settings(home=home, workers=2, health_port=0)
    api.run(lambda database: run_job(database, settings), FrozenClock(NOON + timedelta(hours=hours)))


def test_a_fact_tells_what_became_of_the_task_that_it_was_steered_in(api: ApiServer, tmp_path: Path) -> None:
    path = f"/sessions/{api.open_session('coder:web:mara', project='/srv/shop')}"
    with api.client() as owner:
        owner.post(f"{path}/tasks", json={"title": "Format the code"}).raise_for_status()
        owner.post(f"{path}/messages", json={"text": "Format the code, please."}).raise_for_status()
        words = "From now on, always use tabs for indentation."
        owner.post(f"{path}/steer", json={"text": words}).raise_for_status()
        run_night(api, tmp_path, hours=1)
        (fact,) = owner.get("/facts", params={"query": "tabs"}).json()["facts"]
        assert (fact["steers"], fact["steers_succeeded"], fact["steers_failed"]) == (1, 0, 0)
        owner.post(f"{path}/tasks/finish", json={"outcome": "failure"}).raise_for_status()
        run_night(api, tmp_path, hours=2)
        (fact,) = owner.get("/facts", params={"query": "tabs"}).json()["facts"]
        assert (fact["steers"], fact["steers_succeeded"], fact["steers_failed"]) == (1, 0, 1)
        assert fact["superseded_at"] is None  # a person's constraint stays one
        explanation = owner.get(f"/explain/{fact['id']}").json()
        assert owner.get("/learned").json()["steering"] == {"steers": 1, "succeeded": 0, "failed": 1}
    assert "steered once; the task after it: 1 failed" in explanation["lines"]
    assert [(proof["quote"], proof["steer"]) for proof in explanation["evidence"]] == [(words, "failed")]
    environment = {"CONSOLIDATOR_HOME": str(tmp_path), "CONSOLIDATOR_DATABASE_URL": api.dsn, "PATH": "/usr/bin:/bin"}
    assert "steered once" in run_here("explain", fact["id"], environment=environment).stdout
    learned = run_here("learned", environment=environment)
    assert "people steered once; the task after it: 1 failed" in learned.stderr
