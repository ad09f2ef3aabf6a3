"""Say what a call was given, by key.

Pure, and for display: callers pass redacted arguments (see `argument_redaction`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from consolidator.memory.calls.argument_summary import strip_command
from consolidator.memory.calls.symbols import shell_command


def argument_texts(tool: str, arguments: Any) -> dict[str, str]:
    """Return a call's arguments as texts by key; for a shell {"command": the stripped command line}."""
    line = shell_command(tool, arguments)
    if line is not None:
        return {"command": strip_command(line)}
    if isinstance(arguments, Mapping):
        return {str(key): _to_text(value) for key, value in arguments.items() if key != "description"}
    return {} if arguments in (None, "") else {"input": _to_text(arguments)}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
