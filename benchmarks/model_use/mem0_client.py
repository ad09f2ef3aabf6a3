"""Adds conversations to mem0, turn by turn as its documentation shows, and counts the memories that it stores.

Runs under a Python that has mem0ai, not under ours: reads JSON on standard input and prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

from mem0 import Memory


def main() -> None:
    """Read the conversations and the address of the model server, and add them."""
    request: dict[str, Any] = json.load(sys.stdin)
    url, folder, dimensions = request["url"], request["folder"], request["dimensions"]
    common = {"api_key": "none", "openai_base_url": url}
    memory = Memory.from_config(
        {
            "llm": {"provider": "openai", "config": {**common, "model": request["model"]}},
            "embedder": {
                "provider": "openai",
                "config": {**common, "model": request["embed_model"], "embedding_dims": dimensions},
            },
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/qdrant", "embedding_model_dims": dimensions, "on_disk": True},
            },
            "history_db_path": f"{folder}/history.db",
        }
    )
    adds = memories = 0
    for conversation in request["conversations"]:
        for messages in conversation["adds"]:
            result = memory.add(messages, user_id=conversation["user"])
            adds += 1
            memories += len(result.get("results", []))
    sys.stdout.write(json.dumps({"version": version("mem0ai"), "adds": adds, "memories": memories}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
