"""A file's format is recognised by its beginning."""

from __future__ import annotations

import json
from pathlib import Path

from consolidator.formats.registry import HEAD_BYTES, recognise_format


def test_other_large_files_are_not_recognised(tmp_path: Path) -> None:
    rows = [{"name": "simulations", "value": n} for n in range(5000)]
    for number, text in enumerate(
        (
            json.dumps({"rows": rows}),
            json.dumps(rows),
            json.dumps([1, *rows]),
            json.dumps([["simulations"] * 9999]),
            '{"a": "' + "x" * HEAD_BYTES,
            "{" * 99_999,
            "[" * 99_999,
        )
    ):
        path = tmp_path / f"data{number}.json"
        path.write_text(text)
        assert recognise_format(path) is None
