"""What `serve` says of itself at its start."""

from __future__ import annotations

from pathlib import Path

from consolidator.cli.nights.serve import describe_service
from consolidator.settings import Settings


def test_five_lines_say_what_it_will_do_and_where_its_page_and_token_are(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, retention_cron="*/5 * * * *", health_port=8377)
    lines = describe_service(settings)
    assert len(lines) == 5
    text = "\n".join(lines)
    for part in (
        "import 02:45",
        "prune by `*/5 * * * *`",
        ":8377/ui",
        "/v1/openapi.json",
        ":8377/healthz",
        ":8377/mcp",
    ):
        assert part in text
    assert str(tmp_path / "token") in text
