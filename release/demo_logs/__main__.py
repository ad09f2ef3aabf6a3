"""Writes the demo's logs from their scripts: `python -m release.demo_logs`, after a script was changed."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

from consolidator.demo import FIRST_DAY
from release.demo_logs.script import load_samples
from release.demo_logs.writer import write_logs

FOLDER = Path(__file__).parents[2] / "consolidator" / "demo" / "logs"

if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_logs(load_samples(), FOLDER, FIRST_DAY, timedelta(days=28))
