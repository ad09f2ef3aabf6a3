"""An MCP server that misbehaves as its argument says: python -m tests.integration.runtime.mcp_hostile_server MODE."""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

MODE = sys.argv[1]
BLOCK = b"x" * 65536
TOOL: dict[str, Any] = {"name": "work", "description": "work", "inputSchema": {"type": "object", "properties": {}}}


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def flood(block: bytes, file: Any = sys.stdout.buffer) -> None:
    """Write a block again and again."""
    while True:
        file.write(block)
        file.flush()


def list_tools(number: int) -> dict[str, Any]:
    """Return a page of tools."""
    match MODE:
        case "endless pages":
            return {"tools": [{**TOOL, "name": f"work{number}"}], "nextCursor": f"page {number}"}
        case "many tools":
            return {"tools": [{**TOOL, "name": f"work{i}"} for i in range(5000)]}
        case "huge schema":
            schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20_000)}}
            return {"tools": [{**TOOL, "inputSchema": schema}]}
        case "huge description":
            return {"tools": [{**TOOL, "description": "read me " * 100_000}]}
        case "tools of the wrong form":
            return {"tools": {"work": 1}}
        case _:
            return {"tools": [TOOL]}


def call(request_id: Any) -> None:
    """Answer a call, or do what the mode says."""
    text: dict[str, Any] = {"type": "text", "text": "done"}
    match MODE:
        case "endless line":
            flood(BLOCK)
        case "endless answer":
            sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "')
            flood(BLOCK)
        case "endless lines":
            flood(BLOCK + b"\n")
        case "endless empty lines":
            flood(b"\n" * 65536)
        case "endless notifications":
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
            flood(json.dumps(note).encode() + b"\n")
        case "endless requests":
            for number in itertools.count():
                send({"id": f"ping {number}", "method": "ping"})
        case "endless stderr":
            for _ in range(400):
                sys.stderr.buffer.write(BLOCK)
            sys.stderr.buffer.write(b"\nthe end of it\n")
            sys.stderr.flush()
            send({"id": request_id, "result": {"content": [text]}})
        case "many blocks":
            send({"id": request_id, "result": {"content": [text] * 100_000}})
        case "huge error":
            send({"id": request_id, "error": {"code": -32000, "message": "no " * 1_000_000}})
        case "deep result":
            nested = "[" * 100_000 + "]" * 100_000
            answer = f'{{"jsonrpc": "2.0", "id": {request_id}, "result": {{"content": {nested}}}}}'
            sys.stdout.buffer.write(answer.encode() + b"\n")
            sys.stdout.buffer.flush()
        case "result of the wrong form":
            send({"id": request_id, "result": {"content": "done"}})
        case "never answers":
            time.sleep(3600)
        case _:
            send({"id": request_id, "result": {"content": [text]}})


def main() -> None:
    """Answer requests, line by line."""
    pages = itertools.count()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                if MODE == "endless line at the start":
                    flood(BLOCK)
                version = request["params"]["protocolVersion"]
                information = {"name": "hostile", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information}
                send({"id": request["id"], "result": result})
            case "tools/list":
                if MODE == "never lists":
                    time.sleep(3600)
                send({"id": request["id"], "result": list_tools(next(pages))})
            case "tools/call":
                call(request["id"])
            case _:
                pass


if __name__ == "__main__":
    main()
