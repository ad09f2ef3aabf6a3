"""The configuration file: where it is, what stands in it, and in which line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consolidator.errors import UsageError

PATH_VARIABLE = "CONSOLIDATOR_CONFIG"


def config_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the file, whether it exists or not: ~/.config/consolidator/config.toml unless set otherwise.

    CONSOLIDATOR_CONFIG names another file, XDG_CONFIG_HOME another folder than ~/.config.
    """
    variables = os.environ if environment is None else environment
    if named := variables.get(PATH_VARIABLE):
        return Path(named).expanduser()
    folder = variables.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"
    return base / "consolidator" / "config.toml"


def read_config(path: Path) -> dict[str, Any]:
    """Return what stands in the file by key; nothing if there is none. Raises UsageError if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if os.environ.get(PATH_VARIABLE):
            raise UsageError(f"{path}: there is no such file; {PATH_VARIABLE} names it") from None
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


def locate_key(path: Path, key: str) -> str:
    """Return the file with the line of a key, such as "/etc/config.toml:3"."""
    pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[]=.]""", re.IGNORECASE)
    lines = path.read_text(encoding="utf-8").splitlines()
    number = next((number for number, line in enumerate(lines, 1) if pattern.match(line)), None)
    return str(path) if number is None else f"{path}:{number}"
