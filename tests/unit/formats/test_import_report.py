"""What `import --report` says of logs: which kinds of lines and files are not known, and nothing of what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from consolidator.formats.base import Format
from consolidator.formats.claude_code import reader as claude_code
from consolidator.formats.codex import reader as codex
from consolidator.jobs.importing.importer import ImportSource, inspect_sources
from tests.unit.formats.reader_helpers import write_lines
from tests.unit.formats.test_codex import message_item, meta, wrap

SECRET = "sk-ant-secret"


def test_the_report_tells_shapes_and_versions_and_no_contents(tmp_path: Path) -> None:
    odd = {"type": "newer", "text": SECRET, SECRET: 1, "/home/ann": 2}
    lines = [meta(cli_version="0.199.0"), message_item("user", SECRET), *[wrap("brand_new", {"type": "x", "a": 1})] * 2]
    write_lines(tmp_path / "codex" / "rollout-a.jsonl", [*lines, wrap("event_msg", odd)])
    chat = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": SECRET}}
    write_lines(tmp_path / "claude" / "s.jsonl", [chat, {"type": "new-kind.v2", "sessionId": "s", "words": SECRET}])
    told = inspect_sources([ImportSource(tmp_path)]).describe_unknown()
    assert "\n" not in told
    assert SECRET not in told
    assert "/home" not in told
    assert "codex 0.199.0 type:brand_new:x{a:number,type:text} x2" in told
    assert "claude-code type:new-kind.v2{sessionId:text,type:text,words:text} x1" in told


def test_a_compressed_or_foreign_file_in_a_log_folder_is_told(tmp_path: Path) -> None:
    for name, log_format in (("codex", codex), ("claude", claude_code)):
        folder = tmp_path / name
        write_lines(folder / "a.jsonl", [])
        for other in ("b.jsonl.gz", "c.txt", "d.db"):
            (folder / other).touch()
        report = inspect_sources([ImportSource(folder, cast(Format, log_format))])
        assert report.unread == {".gz": 1, ".txt": 1, ".db": 1}
        assert report.unrecognised == [str(folder / "b.jsonl.gz")]
