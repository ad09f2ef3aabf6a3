"""The commands by panel: a command's module, imported when the command is used, and its line in `--help`."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command's place in the help."""

    panel: str
    module: str  # below consolidator.cli
    summary: str


_PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Start here": {
        "demo": ("start.demo", "watch four weeks of three agents become memory"),
        "install": ("start.install", "memory in Claude Code, Codex or Cursor: hooks, MCP, history"),
        "uninstall": ("start.install", "take it out of a coding agent again"),
        "status": ("start.install", "where it is installed, and what agents were given"),
        "doctor": ("start.install", "check what install set up"),
        "import": ("start.import_logs", "import the session logs of your agents"),
        "learned": ("start.learned", "what your agents learned"),
        "ui": ("start.ui", "memory in a browser: see it, correct it"),
        "config": ("start.config", "the settings in force, and where each comes from"),
        "tokenizer": ("start.tokenizer", "fetch the vocabulary that counts tokens exactly"),
    },
    "Memory": {
        "recall": ("memory.recall", "ask memory, each line with its citation"),
        "remember": ("memory.remember", "have memory believe what you say"),
        "forget": ("memory.remember", "stop believing a fact"),
        "rules": ("memory.rules", "what people say again and again: accept or dismiss it"),
        "facts": ("memory.facts", "what users stated or a model read; correct or forget it"),
        "procedures": ("memory.procedures", "what agents do again and again; export it as skills"),
        "solutions": ("memory.solutions", "errors and what resolved them"),
        "explain": ("memory.explain", "the words, sessions and run that a memory rests on"),
        "next": ("memory.suggestions", "what usually follows in a session"),
        "summary": ("memory.summary", "a session in short: tools, errors, approvals"),
        "revisions": ("memory.revisions", "drafts of the facts, read again by another model"),
        "mcp": ("memory.mcp", "serve memory to Claude Code, Codex, Cursor and others"),
    },
    "Nights": {
        "serve": ("nights.serve", "run as a service: every night, the API, MCP, sessions"),
        "run": ("nights.runs", "run one job now"),
        "runs": ("nights.runs", "the ledger: what each night saw, learned, and left"),
        "retry": ("nights.runs", "learn again from events that were set aside"),
        "backfill": ("nights.backfill", "consolidate by hand, or derive again"),
    },
    "Log": {
        "sessions": ("log.sessions", "list sessions, the latest first"),
        "events": ("log.events", "print or follow a session's events"),
        "export": ("log.export", "export sessions"),
        "backup": ("log.backup", "write the log, memory and ledger into a file"),
        "restore": ("log.backup", "restore a backup into an empty database"),
        "erase": ("log.erase", "erase sessions for good"),
        "token": ("log.tokens", "tokens for other programs"),
        "db": ("log.database", "upgrade, locate, verify and reindex the database"),
    },
    "Agents": {
        "chat": ("agents.chat", "talk with an agent"),
        "agent": ("agents.agent_defaults", "agents: the defaults of their sessions"),
        "session": ("agents.session", "create, show or end one session"),
        "hydrate": ("agents.hydrate", "show a session whole: messages, notes, open calls, children"),
        "fork": ("agents.fork", "go on from an event of a session in another one"),
        "branch": ("agents.branch", "try something beside a session, such as a steer"),
        "compare": ("agents.branch", "compare a branch with its session"),
        "spawn": ("agents.spawn", "give a task to a sub-agent of a session"),
        "checkpoint": ("agents.checkpoint", "labelled points of sessions, to go on from"),
        "steer": ("agents.steer", "say something to a session now, in mid-answer too"),
        "follow-up": ("agents.steer", "say something for when its turn has ended"),
        "stop": ("agents.steer", "end what a session is doing; it stays open"),
        "wake": ("agents.wake", "finish what a crash left open"),
        "approve": ("agents.approvals", "allow a call that waits for approval"),
        "deny": ("agents.approvals", "deny a call that waits for approval"),
        "resolve": ("agents.approvals", "settle a call whose outcome is unknown"),
        "task": ("agents.tasks", "tasks of a session: list, start, finish"),
        "scratchpad": ("agents.scratchpad", "show or change a session's scratchpad"),
        "state": ("agents.state", "the sum of a session's changes of state"),
        "context": ("agents.context", "what the model would see of a session now"),
        "compact": ("agents.context", "summarize the older part of a session"),
        "replay": ("agents.replay", "show again what a session's people saw"),
        "rerun": ("agents.rerun", "run a recorded session again, and compare"),
        "diff": ("agents.rerun", "compare two sessions turn by turn"),
        "cost": ("agents.cost", "what models cost"),
    },
}
COMMANDS = {
    name: CommandEntry(panel, module, summary)
    for panel, entries in _PANELS.items()
    for name, (module, summary) in entries.items()
}
# The commands of the groups; those with `search` take a query, too.
SEARCH = "search"
SUBCOMMANDS = {
    "agent": ("set", "list", "show", "delete"),
    "branch": ("create", "list", "commit", "discard"),
    "checkpoint": ("create", "list", "restore", "delete"),
    "config": ("show",),
    "db": ("upgrade", "roles", "info", "verify", "seals", "reindex"),
    "facts": ("forget", "correct", "undo", "review", SEARCH),
    "procedures": ("export", SEARCH),
    "revisions": ("show", "promote", "discard", "restore"),
    "rules": ("accept", "dismiss", "write"),
    "runs": ("show",),
    "session": ("create", "show", "end"),
    "task": ("list", "start", "finish"),
    "token": ("create", "list", "revoke"),
    "tokenizer": ("fetch",),
}
# What people type who come from other programs.
SYNONYMS = {
    "ask": "recall",
    "search": "recall",
    "query": "recall",
    "list": "sessions",
    "ls": "sessions",
    "log": "events",
    "logs": "sessions",
    "show": "explain",
    "add": "remember",
    "delete": "erase",
    "rm": "erase",
    "start": "serve",
    "daemon": "serve",
    "errors": "solutions",
    "skills": "procedures",
    "new": "learned",
    "info": "db",
    "database": "db",
    "version": "--version",
    "help": "--help",
}
