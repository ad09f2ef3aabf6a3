"""Gives conversations to mem0, turn by turn as its documentation shows, and says what came of it.

Run by a Python that has mem0ai, not by ours: reads JSON on standard input, writes a line of JSON.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

from mem0 import Memory


def main() -> None:
    """Read what to add and where the model's server is."""
    told: dict[str, Any] = json.load(sys.stdin)
    url, folder, dimensions = told["url"], told["folder"], told["dimensions"]
    common = {"api_key": "none", "openai_base_url": url}
    memory = Memory.from_config(
        {
            "llm": {"provider": "openai", "config": {**common, "model": told["model"]}},
            "embedder": {
                "provider": "openai",
                "config": {**common, "model": told["embed_model"], "embedding_dims": dimensions},
            },
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/qdrant", "embedding_model_dims": dimensions, "on_disk": True},
            },
            "history_db_path": f"{folder}/history.db",
        }
    )
    added = kept = 0
    for one in told["conversations"]:
        for messages in one["adds"]:
            found = memory.add(messages, user_id=one["user"])
            added += 1
            kept += len(found.get("results", []))
    sys.stdout.write(json.dumps({"version": version("mem0ai"), "adds": added, "memories": kept}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
