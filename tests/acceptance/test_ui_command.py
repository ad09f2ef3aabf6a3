"""`consolidator ui` where no service runs: it serves the page by itself until it is stopped."""

from __future__ import annotations

import json
import signal

import httpx2

from tests.nights import start_cli
from tests.support import PATIENCE, free_port


def test_without_a_service_the_command_serves_the_page_itself(environment: dict[str, str]) -> None:
    with free_port() as port:
        variables = environment | {"CONSOLIDATOR_HEALTH_PORT": str(port)}
        with start_cli("ui", "--no-browser", "--json", environment=variables) as command:
            assert command.stdout is not None
            lines = ""
            while not lines.rstrip().endswith("}"):
                lines += command.stdout.readline()
            with httpx2.Client(timeout=PATIENCE) as client:
                assert client.get(json.loads(lines)["url"]).status_code == 200
                page = client.get(f"http://127.0.0.1:{port}/ui/today")
            command.send_signal(signal.SIGINT)
            command.communicate(timeout=PATIENCE)
    assert page.status_code == 200
    assert "consolidator import" in page.text  # what to do while there is nothing
    assert command.returncode == 0
