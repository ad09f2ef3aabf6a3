"""What programs log goes to standard error: in colour on a terminal, as dated lines elsewhere."""

from __future__ import annotations

import logging
import os

from rich.logging import RichHandler

from consolidator.cli.output import ERR

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NOISY = ("alembic", "apscheduler", "uvicorn", "asyncio", "httpx", "httpx2", "mcp")


def configure_logging() -> None:
    """Log to standard error at the level of CONSOLIDATOR_LOG_LEVEL; libraries only warnings."""
    level = os.environ.get("CONSOLIDATOR_LOG_LEVEL", "INFO").upper()
    level = level if level in logging.getLevelNamesMapping() else "INFO"
    handler = RichHandler(console=ERR, show_path=False) if ERR.is_terminal else logging.StreamHandler()
    logging.basicConfig(level=level, handlers=[handler], format="%(message)s" if ERR.is_terminal else _LOG_FORMAT)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
