"""Chooses the model of the nights: what is configured, else a local server, else a coding agent that a person allowed.

A server that is found by itself gets a person's words only if its process is their own, root's or its installer's
account's, since any user of a machine may listen on loopback. An agent is asked only with a recorded yes.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import shutil
import socket
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import psutil

from consolidator.llm.client import OPENAI_URL, ModelClient, create_client
from consolidator.llm.commands import AGENT_COMMANDS, CommandClient, split_agent_model

if TYPE_CHECKING:
    from consolidator.settings import Settings

PROBE_SECONDS = 0.5
_MAX_LISTING = 1 << 20  # bytes
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LENGTHS = ("max_model_len", "loaded_context_length", "context_length", "n_ctx")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)b\b", re.I)
_NONE = (
    "nights learn without a model; set CONSOLIDATOR_MODEL, start Ollama or LM Studio, or let `consolidator install` "
    "use your coding agent"
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that the nights ask, and why this one."""

    source: Literal["configured", "local", "agent", "none"]
    name: str | None  # such as "qwen3:8b" or "claude-code/haiku"
    place: str  # the address of its server, or the program; why there is none
    window: int | None = None  # tokens of a question and its answer together

    @property
    def description(self) -> str:
        """The choice in one line, the same on every surface."""
        if self.name is None:
            return f"none: {self.place}"
        why = {"configured": "configured", "local": "found by itself", "agent": "as you allowed at `install`"}
        return f"{self.name} {'by' if self.is_agent else 'at'} {self.place} ({why[self.source]})"

    @property
    def is_agent(self) -> bool:
        """Whether a coding agent's command line is asked."""
        return split_agent_model(self.name) is not None

    def apply(self, settings: Settings) -> Settings:
        """Return the settings of the calls of this model; those of other models, such as for vectors, stay as is."""
        update: dict[str, Any] = {"extract_model": self.name, "model_window": self.window}
        if self.source == "local":
            update |= {"openai_base_url": self.place, "night_max_cost_usd": None, "batch": False}
            if self.place != settings.openai_base_url:
                update["openai_api_key"] = None
        if self.is_agent:
            update["batch"] = False
        if self.source != "configured" or self.is_agent:
            update["model"] = None
        return settings.model_copy(update=update)

    def create_client(self, settings: Settings) -> ModelClient | CommandClient:
        """Return a client of the model; the settings are those that `apply` returned."""
        agent = split_agent_model(self.name)
        if agent is None:
            return create_client(settings)
        return CommandClient(agent[0], self.place, settings.home, settings.model_timeout_seconds)


def choose_model(settings: Settings) -> ModelChoice:
    """Return the model that the nights ask. Looks for local servers for a moment where none is configured."""
    name = settings.extract_model or settings.model
    if (agent := split_agent_model(name)) is not None:
        return ModelChoice("configured", "/".join(agent), _find_program(agent[0]))
    if name is not None:
        window = settings.model_window
        if window is None and (server := _find_configured_server(settings)) is not None:
            window = _read_window(name, server, _list_models(str(settings.openai_base_url), server["port"]))
        place = re.sub(r"//[^/]*@", "//", settings.openai_base_url or OPENAI_URL)
        return ModelChoice("configured", name, place, window)
    if not settings.find_model:
        return ModelChoice("none", None, "rules only")
    server = _find_configured_server(settings)
    local = None if server is None else _choose_of(str(settings.openai_base_url), server, settings, is_named=True)
    if (local := local or _choose_local_server(settings)) is not None:
        return local
    for allowed, permission in load_permissions(settings.home).items():
        if permission.is_agreed and allowed in AGENT_COMMANDS:
            place = permission.program if os.access(permission.program, os.X_OK) else _find_program(allowed)
            return ModelChoice("agent", f"{allowed}/{AGENT_COMMANDS[allowed].model}", place)
    foreign = [server["name"] for server in _table()["server"] if _listens(server["port"]) and not _is_trusted(server)]
    note = f" (what answers as {' and '.join(foreign)} is another user's, and is not asked)" if foreign else ""
    return ModelChoice("none", None, _NONE + note)


def _find_configured_server(settings: Settings) -> dict[str, Any] | None:
    """Return the loopback server that OPENAI_BASE_URL names, with what the table says of its port."""
    url = urlsplit(settings.openai_base_url or "")
    if url.hostname not in _LOOPBACK or url.scheme != "http":
        return None
    server: dict[str, Any] = next((row for row in _table()["server"] if row["port"] == url.port), {})
    return {**server, "port": url.port or 80}


def _choose_local_server(settings: Settings) -> ModelChoice | None:
    """Return a model of the first server of the table that answers and that may be asked."""
    for server in _table()["server"]:
        if _listens(server["port"]) and _is_trusted(server):
            choice = _choose_of(f"http://127.0.0.1:{server['port']}/v1", server, settings)
            if choice is not None:
                return choice
    return None


def _choose_of(
    address: str, server: Mapping[str, Any], settings: Settings, *, is_named: bool = False
) -> ModelChoice | None:
    """Return the preferred model of a server's list; None if it is not one that we know or that is named."""
    rows = _list_models(address, server["port"])
    name = pick_model([str(row["id"]) for row in rows if "id" in row and (is_named or _is_of(server, row))])
    if name is None:
        return None
    return ModelChoice("local", name, address, settings.model_window or _read_window(name, server, rows))


def _list_models(address: str, port: int) -> list[Mapping[str, Any]]:
    return _rows(_get_json(port, f"{urlsplit(address).path.rstrip('/')}/models"))


def _is_of(server: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return "owned_by" not in server or row.get("owned_by") == server["owned_by"]


def pick_model(names: Sequence[str]) -> str | None:
    """Return the model to ask among those that a server lists, by the table's preference."""
    table = _table()["models"]
    fit = [name for name in names if not any(word in name.lower() for word in table["never"])]
    for family in table["families"]:
        of_family = [name for name in fit if family in name.lower()]
        if of_family:
            small = [name for name in of_family if _billions(name) <= table["billions"]]
            return max(small, key=_billions) if small else min(of_family, key=_billions)
    return fit[0] if fit else None


def _billions(name: str) -> float:
    """Return a model's size by its name, in billions of weights; 0 where it does not say."""
    sizes = [float(size) for size in _SIZE.findall(name)]
    return max(sizes, default=0.0)


def _read_window(name: str, server: Mapping[str, Any], listed: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many tokens a server says that a model reads and writes at once, else what the table says of it."""
    details = _get_json(server["port"], server["details"]) if "details" in server else None
    for row in (*listed, *_rows(details)):
        names = {row[key] for key in ("id", "name", "model") if isinstance(row.get(key), str)}
        if names and name not in names:
            continue
        parts = [row, *(row[key] for key in ("meta", "default_generation_settings") if isinstance(row.get(key), dict))]
        lengths = [part[key] for part in parts for key in _LENGTHS if isinstance(part.get(key), int)]
        if lengths and lengths[0] > 0:
            return int(lengths[0])
    return server.get("window") if any(_is_of(server, row) for row in listed) else None


def _rows(body: Any) -> list[Mapping[str, Any]]:
    """Return the models of a listing, or the listing itself where it is about its only model."""
    if not isinstance(body, dict):
        return []
    listed = next((body[key] for key in ("data", "models") if isinstance(body.get(key), list)), [body])
    return [row for row in listed if isinstance(row, dict)]


def _get_json(port: int, path: str) -> Any:
    """Return what a loopback server says; None for anything else than JSON, a redirect included."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", path, headers={"accept": "application/json"})
        response = connection.getresponse()
        return json.loads(response.read(_MAX_LISTING)) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PROBE_SECONDS):
        return True
    return False


def _is_trusted(server: Mapping[str, Any]) -> bool:
    """Tell whether the processes that listen on a server's port are all ours, root's, or its installer's account's."""
    trusted = {os.geteuid(), 0}
    for account in server.get("accounts", ()):
        with suppress(KeyError):
            trusted.add(pwd.getpwnam(account).pw_uid)
    owners = set(_list_owners(server["port"]))
    return bool(owners) and owners <= trusted


def _list_owners(port: int) -> Iterator[int]:
    """Yield the user ids of the processes that listen on a port, as far as this user may see them."""
    if sys.platform == "linux":
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with suppress(OSError):
                for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                        yield int(fields[7])
        return
    for process in psutil.process_iter():  # elsewhere only those of one's own processes can be seen
        with suppress(psutil.Error, OSError):
            if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in process.net_connections("tcp")):
                yield process.uids().effective


def _find_program(agent: str) -> str:
    program = AGENT_COMMANDS[agent].program
    return shutil.which(program) or program


@dataclass(frozen=True, slots=True)
class Permission:
    """A person's answer to whether the nights may ask a coding agent."""

    is_agreed: bool
    program: str  # where its command line was then
    at: str


def load_permissions(home: Path) -> dict[str, Permission]:
    """Return the recorded answers by agent; none where the record cannot be read: nothing but a yes is one."""
    try:
        record = json.loads(_record(home).read_text(encoding="utf-8"))
        return {
            agent: Permission(answer["is_agreed"] is True, str(answer["program"]), str(answer["at"]))
            for agent, answer in record.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def save_permission(home: Path, agent: str, *, is_agreed: bool | None, now: datetime) -> None:
    """Record a person's answer for an agent; None forgets it."""
    answers = {name: asdict(permission) for name, permission in load_permissions(home).items()}
    if answers.pop(agent, None) is None and is_agreed is None:
        return
    if is_agreed is not None:
        answers[agent] = {"is_agreed": is_agreed, "program": _find_program(agent), "at": f"{now:%Y-%m-%d %H:%M} UTC"}
    record = _record(home)
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.write_text(json.dumps(answers, indent=2) + "\n", encoding="utf-8")


def _record(home: Path) -> Path:
    return home / "install" / "model.json"


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("local_models.toml").read_text(encoding="utf-8"))
