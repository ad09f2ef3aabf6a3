"""`consolidator ui` where no service runs: it serves the page by itself until it is stopped."""

from __future__ import annotations

import json
import signal

import httpx2

from consolidator.ui.app import PAGES
from tests.nights import start_cli
from tests.support import PATIENCE, free_port


def test_without_a_service_the_command_serves_the_page_itself(environment: dict[str, str]) -> None:
    with free_port() as port:
        variables = environment | {"CONSOLIDATOR_HEALTH_PORT": str(port)}
        del variables["CONSOLIDATOR_DATABASE_URL"]  # the embedded database
        with start_cli("ui", "--no-browser", "--json", environment=variables) as command:
            assert command.stdout is not None
            lines = ""
            while not lines.rstrip().endswith("}"):
                lines += command.stdout.readline()
            with httpx2.Client(timeout=PATIENCE) as client:
                assert client.get(json.loads(lines)["url"]).status_code == 200
                pages = [client.get(f"http://127.0.0.1:{port}/ui{page.entry.path}") for page in PAGES]
                begun = client.get(f"http://127.0.0.1:{port}/ui")
                missing = client.get(f"http://127.0.0.1:{port}/ui/memory/none")
            command.send_signal(signal.SIGINT)
            command.communicate(timeout=PATIENCE)
    assert (begun.status_code, begun.headers["location"]) == (303, "/ui/today")  # what `serve` prints
    assert "embedded" in (system := next(page.text for page in pages if page.url.path == "/ui/system"))
    assert "given by" not in system
    assert [page.status_code for page in pages] == [200] * len(PAGES)
    assert all('class="empty"' in page.text for page in pages)  # what to do while there is nothing
    assert "consolidator import" in pages[0].text
    assert (missing.status_code, "There is nothing here" in missing.text) == (404, True)
    assert command.returncode == 0
