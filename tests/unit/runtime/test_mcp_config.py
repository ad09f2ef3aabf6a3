"""The JSON file of MCP servers: what is read, and what is refused in words that hold no key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consolidator.errors import UsageError
from consolidator.runtime.tools.mcp_config import MAX_BYTES, MAX_SERVERS, McpServerConfig, read_mcp_config

KEY = "sk-ant-not-for-anybodys-eyes"


def write(folder: Path, body: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(body if isinstance(body, str) else json.dumps(body))
    return path


def test_servers_are_read_in_order_without_disabled_ones(tmp_path: Path) -> None:
    servers = {
        "files": {"command": "npx", "args": ["-y", "server-files", "/srv"], "type": "stdio"},
        "off": {"command": "never", "disabled": True},
        "web": {"command": "web server", "env": {"API_KEY": KEY}, "cwd": "/tmp"},
    }
    assert read_mcp_config(write(tmp_path, {"mcpServers": servers, "other": 1})) == [
        McpServerConfig("files", ("npx", "-y", "server-files", "/srv"), {}),
        McpServerConfig("web", ("web server",), {"API_KEY": KEY}, Path("/tmp")),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "is no JSON at line 1"),
        ("[" * 100_000, "is no JSON"),
        ([], 'has no object "mcpServers"'),
        ({"mcpServers": []}, 'has no object "mcpServers"'),
        ({"mcpServers": {"a": 1}}, "server 'a' of the MCP configuration"),
        ({"mcpServers": {"a": {}}}, 'has no "command"'),
        ({"mcpServers": {"a": {"command": "x", "args": KEY}}}, '"args" is not a list'),
        ({"mcpServers": {"a": {"command": "x", "args": ["x"] * 201}}}, "at most 200 strings"),
        ({"mcpServers": {"a": {"command": "x", "env": {"K": 1, "L": KEY}}}}, '"env" is not an object'),
        ({"mcpServers": {"a": {"command": "x", "cwd": 1}}}, '"cwd" is not a string'),
        ({"mcpServers": {"a": {"command": "x", "args": ["\0"]}}}, "NUL"),
        ({"mcpServers": {"a": {"command": "x", "comand": KEY}}}, "a field that is not known: 'comand'"),
        ({"mcpServers": {"a": {"url": "http://h/?key=" + KEY}}}, "is reached over HTTP"),
        ({"mcpServers": {str(n): {"command": "x"} for n in range(MAX_SERVERS + 1)}}, "at most 64 are started"),
        (" " * (MAX_BYTES + 1), "has more than 1,048,576 bytes"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, body: Any, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_mcp_config(write(tmp_path, body))
    assert words in str(raised.value)
    assert KEY not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.json cannot be read: No such file"):
        read_mcp_config(tmp_path / "nothing.json")
