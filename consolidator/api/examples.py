"""An example of each request body, by the name of its schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

BODIES: dict[str, dict[str, Any]] = {
    "Acceptance": {"words": "Use tabs."},
    "AgentChange": {"model": "gpt-4o-mini", "max_cost_usd": "2.50"},
    "Compact": {"budget": 8000, "by_model": False},
    "Correction": {"text": "We deploy on Mondays."},
    "EndSession": {"reason": "the question is answered"},
    "Erase": {"peer": "mara", "reason": "asked for by the person"},
    "ErrorLookup": {"error": "fatal: The current branch main has no upstream branch.", "tool": "bash"},
    "Forgetting": {"words": "we use tabs"},
    "Fork": {"at": 4, "overrides": {"model": "gpt-4o-mini"}},
    "NewBackfill": {"since": "2026-03-01T00:00:00Z", "only": "procedures"},
    "NewBranch": {"kind": "sim", "message": "What if we used pnpm?"},
    "NewCheckpoint": {"label": "before the migration", "ttl_seconds": 604800},
    "NewEvents": {
        "session_key": "main:cli:mara",
        "events": [{"type": "UserMessage", "data": {"text": "From now on, use tabs."}}],
    },
    "NewMessage": {"text": "What did I ask you yesterday?"},
    "NewRun": {"job": "consolidation"},
    "NewTask": {"title": "Fix the failing build"},
    "OpenSession": {"key": "main:web:mara", "system": "Be brief.", "max_cost_usd": "0.50"},
    "Resolution": {"outcome": "ok"},
    "Restore": {"overrides": {"model": "gpt-4o-mini"}},
    "Retry": {"discard": False},
    "Review": {"accept": True},
    "ScratchpadChange": {"mode": "append", "text": "- [ ] ask for the invoice"},
    "Shown": {"surface": "web", "cursor": "4"},
    "Spawn": {"task": "Which of these files have no tests?", "mode": "summary"},
    "Statement": {"statement": "we use tabs"},
    "TaskEnd": {"outcome": "success", "note": "the build is green"},
    "Verdict": {"reason": "it is what I asked for"},
}
