"""The commands: where each one's function is, imported when the command is used, and its line in `--help`.

A noun is a dictionary of commands. Names of former releases are aliases, which are hidden and stay for one release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class CommandEntry(NamedTuple):
    """A command's place in the help."""

    panel: str
    target: str  # below consolidator.cli, as module:function; "" of a noun
    summary: str
    commands: Mapping[str, CommandEntry] = {}  # of a noun

    @property
    def help(self) -> str:
        """The summary as a sentence."""
        return f"{self.summary[0].upper()}{self.summary[1:]}."


SEARCH = "search"
_Noun = dict[str, tuple[str, str]]
_PANELS: dict[str, dict[str, tuple[str | _Noun, str]]] = {
    "Start here": {
        "demo": ("start.demo:demo_command", "watch four weeks of three agents become memory"),
        "install": ("start.install:install_command", "memory in your coding agent: hooks, MCP, history"),
        "uninstall": ("start.install:uninstall_command", "take it out of a coding agent again"),
        "status": ("start.install:status_command", "where it is installed, and what agents were given"),
        "doctor": ("start.install:doctor_command", "check what install set up"),
        "import": ("start.import_logs:import_command", "import the session logs of your agents"),
        "learned": ("memory.lessons:learned_command", "what your agents learned"),
        "ui": ("start.ui:ui_command", "memory in a browser: see it, correct it"),
        "config": ("start.import_logs:config_command", "the settings in force, and where each comes from"),
    },
    "Memory": {
        "recall": ("memory.recall:recall_command", "ask memory, each line with its citation"),
        "remember": ("memory.rules:remember_command", "have memory believe a statement of yours"),
        "forget": ("memory.rules:forget_command", "stop believing a fact"),
        "rules": ("memory.rules:rules_command", "what people ask for again and again: accept or dismiss it"),
        "facts": ("memory.facts:facts_command", "what users stated or a model read; correct or forget it"),
        "procedures": ("memory.procedures:procedures_command", "what agents do again and again; export it as skills"),
        "compile": ("memory.compile:compile_command", "make a tool of a procedure, once you say yes"),
        "solutions": ("memory.procedures:solutions_command", "errors and what resolved them"),
        "commands": ("memory.lessons:commands_command", "how commands are run here, and which never work"),
        "lessons": ("memory.lessons:lessons_command", "every lesson, with what came of telling it; pin one"),
        "friction": ("memory.lessons:friction_command", "what keeps failing, and what then works"),
        "prove": ("memory.proving:prove_command", "try a lesson on recorded sessions: what a model does with it"),
        "brief": ("memory.brief:brief_command", "what the next session is told"),
        "explain": ("memory.explain:explain_command", "the words, sessions and run that a memory rests on"),
        "blame": ("memory.explain:blame_command", "which memory stood behind a call, or what is known of a file"),
        "memory": (
            {
                "export": ("memory.moving:export_memory_command", "write what is believed here into one signed file"),
                "import": ("memory.moving:import_memory_command", "import what another installation believes"),
                "sync": ("memory.moving:sync_memory_command", "fetch it from another machine over ssh"),
            },
            "memory that moves: export, import, sync",
        ),
        "revisions": ("nights.runs:revisions_command", "drafts of the facts, read again by another model"),
        "mcp": ("start.ui:mcp_command", "serve memory to Claude Code, Codex, Cursor and others"),
        "proxy": ("start.proxy:proxy_command", "record what any agent asks of a model, on the way"),
    },
    "Nights": {
        "serve": ("nights.serve:serve_command", "run as a service: every night, the API, MCP, sessions"),
        "run": ("nights.runs:run_command", "run one job now"),
        "runs": ("nights.runs:runs_command", "the ledger: what each night saw and left; learn it again"),
        "backfill": ("nights.runs:backfill_command", "consolidate by hand, or derive again"),
    },
    "Log": {
        "export": ("log.export:export_command", "export sessions"),
        "mirror": ("log.export:mirror_command", "keep transcripts of sessions in a folder, for tail -f"),
        "erase": ("log.export:erase_command", "erase sessions for good"),
        "token": (
            {
                "create": ("log.database:create_command", "create a credential, and print its token once"),
                "list": ("log.database:list_command", "list the credentials"),
                "revoke": ("log.database:revoke_command", "revoke a credential"),
            },
            "tokens for other programs: what each may do",
        ),
        "db": (
            {
                "upgrade": ("log.database:upgrade_command", "upgrade the schema; create the roles"),
                "info": ("log.database:info_command", "where it is, its version, its size, its seals"),
                "verify": ("log.database:verify_command", "check the invariants on the real rows"),
                "backup": ("log.database:backup_command", "write the log, memory and ledger into a file"),
                "restore": ("log.database:restore_command", "restore a backup into an empty database"),
            },
            "the database: upgrade, verify, back up, restore it",
        ),
    },
    "Agents": {
        "chat": ("agents.chat:chat_command", "talk with an agent"),
        "session": (
            {
                "list": ("log.sessions:list_command", "list sessions, the latest first"),
                "show": ("agents.session:show_command", "show a session: its row, state, summary, or what follows"),
                "events": ("log.events:events_command", "print or follow a session's events, or replay it"),
                "create": ("agents.session:create_command", "create a session"),
                "end": ("agents.session:end_command", "end a session; nothing is deleted"),
                "say": ("agents.drive:say_command", "say something to a session, in mid-answer too"),
                "wake": ("agents.drive:wake_command", "finish what a crash left open"),
                "task": ("agents.drive:task_command", "tasks of a session: list, start, finish"),
                "notes": ("agents.drive:notes_command", "show or change a session's scratchpad"),
                "context": ("agents.session:context_command", "what the model would see of a session now"),
                "compact": ("agents.session:compact_command", "summarize the older part of a session"),
                "fork": ("agents.children:fork_command", "go on from an event or a checkpoint in another session"),
                "checkpoint": ("agents.children:checkpoint_command", "label a point of a session, to go on from"),
                "branch": ("agents.children:branch_command", "try something beside a session, such as a steer"),
                "spawn": ("agents.children:spawn_command", "give a task to a sub-agent of a session"),
                "rerun": ("agents.children:rerun_command", "run a recorded session again, and compare"),
                "diff": ("agents.children:diff_command", "compare two sessions, or a branch with its session"),
            },
            "sessions: list, show, drive, fork and compare them",
        ),
        "call": ("agents.drive:call_command", "approve, deny or resolve a call that waits for a person"),
        "agent": (
            {
                "set": ("agents.agent_defaults:set_command", "set defaults of an agent's sessions"),
                "show": ("agents.agent_defaults:show_command", "show an agent's defaults, or list the agents"),
            },
            "agents: the defaults of their sessions",
        ),
        "cost": ("agents.drive:cost_command", "what models cost"),
    },
}


def _entry(panel: str, place: str | _Noun, summary: str) -> CommandEntry:
    if isinstance(place, str):
        return CommandEntry(panel, place, summary)
    return CommandEntry(panel, "", summary, {name: _entry("Commands", *entry) for name, entry in place.items()})


COMMANDS = {name: _entry(panel, *entry) for panel, entries in _PANELS.items() for name, entry in entries.items()}
# Names of former releases, and what they stand for.
ALIASES = {
    "agent delete": "agent set --delete", "agent list": "agent show", "approve": "call approve",
    "backup": "db backup", "branch commit": "session branch --commit", "branch create": "session branch",
    "branch discard": "session branch --discard", "branch list": "session branch --list",
    "checkpoint create": "session checkpoint", "checkpoint delete": "session checkpoint --delete",
    "checkpoint list": "session checkpoint --list", "checkpoint restore": "session fork",
    "compact": "session compact", "compare": "session diff", "config show": "config", "context": "session context",
    "db reindex": "run reindex", "db roles": "db upgrade --roles", "db seals": "db info --seals", "deny": "call deny",
    "diff": "session diff", "events": "session events", "facts correct": "facts --correct", "facts forget": "forget",
    "facts review": "facts --review", "facts undo": "facts --undo", "follow-up": "session say --later",
    "fork": "session fork", "hydrate": "session show --part whole", "next": "session show --part next",
    "procedures export": "procedures --export", "replay": "session events --as replay", "rerun": "session rerun",
    "resolve": "call resolve", "restore": "db restore", "retry": "runs --retry",
    "revisions discard": "revisions --discard", "revisions promote": "revisions --promote",
    "revisions restore": "revisions --restore", "revisions show": "revisions", "rules accept": "rules --accept",
    "rules dismiss": "rules --dismiss", "rules write": "rules --write", "runs show": "runs",
    "scratchpad": "session notes", "session replay": "session events --as replay", "session restore": "session fork",
    "session stop": "session say --stop", "sessions": "session list", "spawn": "session spawn",
    "state": "session show --part state", "steer": "session say", "stop": "session say --stop",
    "summary": "session show --part summary", "task finish": "session task --finish", "task list": "session task",
    "task start": "session task", "wake": "session wake",
}  # fmt: skip
# Options of former releases, of all commands and of one: the option that each became, and what begins its value.
OPTION_ALIASES = {
    "": {"--builtin": "--tools", "--mcp": "--tools mcp:", "--mcp-config": "--tools"},
    "procedures --export": {"--format": ""},  # there was one
    "session spawn": {"--only": "--tool"},
}  # fmt: skip
FLAG_ALIASES = {("run reindex", "--vectors"): "--force"}  # by the command
# What runs until it is ended, or prints a format or a dialogue of its own.
WITHOUT_JSON = frozenset({"chat", "export", "install", "mcp", "mirror", "serve", "uninstall"})
# What people type who come from other programs.
SYNONYMS = {
    "ask": "recall", "search": "recall", "query": "recall", "list": "session list", "ls": "session list",
    "log": "session events", "logs": "session list", "branch": "session branch",
    "checkpoint": "session checkpoint", "task": "session task", "notes": "session notes", "say": "session say",
    "show": "explain", "add": "remember", "delete": "erase", "rm": "erase", "start": "serve",
    "daemon": "serve", "errors": "solutions",
    "skills": "procedures", "new": "learned", "info": "db info", "database": "db", "version": "--version",
    "help": "--help",
}  # fmt: skip


def list_targets() -> dict[tuple[str, ...], Any]:
    """Return the entries of all commands that have a module, by their words."""
    leaves = {(name,): entry for name, entry in COMMANDS.items() if entry.target}
    nouns = {name: entry.commands for name, entry in COMMANDS.items() if entry.commands}
    return leaves | {(noun, name): entry for noun, commands in nouns.items() for name, entry in commands.items()}
