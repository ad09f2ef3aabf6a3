"""A service of its own for the tests of the HTTP API: `consolidator serve` on loopback, and clients with any token."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database
from consolidator.service.credentials import create_credential, revoke_credential
from consolidator.testing import ModelServer
from consolidator.testing.model_server import AnswerFunction
from tests.conftest import NOON
from tests.forks import Fork
from tests.support import PATIENCE, free_port

T = TypeVar("T")
Json = dict[str, Any]
LEAP_DAY = "0 3 29 2 *"  # as a cron expression


@dataclass
class ApiServer:
    """A running service, its database, and tokens for it."""

    address: str
    dsn: str
    home: Path
    process: Fork
    log_file: Path
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def owners_token(self) -> str:
        """The token of the machine's owner."""
        return (self.home / "token").read_text(encoding="utf-8").strip()

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        """Return a client with a token; without one it is the owner."""
        authorized = {"authorization": f"Bearer {token or self.owners_token}", **headers}
        return httpx2.Client(base_url=self.address + "/v1", headers=authorized, timeout=PATIENCE)

    def make_token(self, name: str, *scopes: str, age: timedelta | None = None, **options: Any) -> str:
        """Return the token of a credential, made `age` ago; a name has one token in a module."""
        if name not in self.tokens:
            clock = FrozenClock(NOON - age) if age else Clock(NOON)
            created = create_credential
            self.tokens[name] = self.run(lambda database: created(database, name, scopes, **options), clock)
        return self.tokens[name]

    def revoke(self, name: str) -> None:
        """Revoke a credential."""
        self.run(lambda database: revoke_credential(database, name))

    def run(self, work: Callable[[Database], Awaitable[T]], clock: Clock | None = None) -> T:
        """Do something with the database, in this process."""

        async def with_database() -> T:
            database = Database(self.dsn, clock or Clock(NOON))
            try:
                return await work(database)
            finally:
                await database.close()

        return asyncio.run(with_database())

    def openapi(self) -> Json:
        """Return the OpenAPI document."""
        document: Json = httpx2.get(self.address + "/v1/openapi.json", timeout=PATIENCE).raise_for_status().json()
        return document

    def open_session(self, key: str = "main:web:mara", **more: Any) -> str:
        """Return the id of a key's session."""
        with self.client() as client:
            return str(client.post("/sessions", json={"key": key, **more}).raise_for_status().json()["id"])


MANY = {"WRONG_TOKENS_PER_MINUTE": 100_000, "STREAMS": 500}  # no test that counts neither meets them


@contextmanager
def serve(dsn: str, home: Path, *options: str, limits: Any = MANY, **variables: str) -> Iterator[ApiServer]:
    """Run the service on a database, with options of its command; it must end by itself when it is told to.

    `limits` are constants of the API's door that it has in place of its own.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    with free_port() as port:
        environment = {
            **kept,
            "HOME": str(home),
            "CONSOLIDATOR_HOME": str(home / "data"),
            "CONSOLIDATOR_DATABASE_URL": dsn,
            "CONSOLIDATOR_CLOCK": NOON.isoformat(),
            "CONSOLIDATOR_HEALTH_PORT": str(port),
            "CONSOLIDATOR_HTTP_REQUESTS_PER_SECOND": "100000",
            "CONSOLIDATOR_SOURCES": "[]",
            "CONSOLIDATOR_CONSOLIDATION_CRON": LEAP_DAY,  # else it shares the nights of tests, whose clocks differ
            "PYTHONWARNINGS": "error",
            **variables,
        }
        log_file = home / f"serve-{port}.log"
        with log_file.open("wb") as log:
            prepare = f"from consolidator.api import guard; vars(guard).update({dict(limits)})"
            process = Fork(["serve", *options], environment=environment, prepare=prepare, stdout=log, stderr=log)
        server = ApiServer(f"http://127.0.0.1:{port}", dsn, home / "data", process, log_file)
        try:
            _wait_until_reachable(server)
            yield server
        finally:
            process.terminate()
            assert process.wait(PATIENCE) in (0, -9), log_file.read_text()


@contextmanager
def answer_models(answers: AnswerFunction) -> Iterator[ModelServer]:
    """Run a stand-in model server beside the tests, in a thread of its own."""
    server, started = ModelServer(answers), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with server:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.close()


def use_model(server: ModelServer) -> dict[str, str]:
    """Return the variables with which a service asks a stand-in model server."""
    return {
        "CONSOLIDATOR_MODEL": "gpt-4o-mini",
        "CONSOLIDATOR_OPENAI_BASE_URL": server.url,
        "CONSOLIDATOR_OPENAI_API_KEY": "stand-in",
    }


def wait_for(client: httpx2.Client, path: str, is_there: Callable[[Json], bool]) -> Json:
    """Return what a route answers as soon as it is as wanted."""
    until = time.monotonic() + PATIENCE
    while True:
        found: Json = client.get(path).raise_for_status().json()
        if is_there(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.05)


def _wait_until_reachable(server: ApiServer) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert server.process.poll() is None, server.log_file.read_text()
        try:
            httpx2.get(server.address + "/healthz")
        except httpx2.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the service does not answer")


def read_frames(lines: Iterator[str]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the events of a stream: kind, id and data; signs of life are left out."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


def find_operations(document: Mapping[str, Any]) -> list[tuple[str, str, Json]]:
    """Return the operations of an OpenAPI document: method, path and description."""
    return [
        (method, path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def make_sample(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema: its first example, else the least that there can be."""
    if "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return make_sample(document, found)
    if schema.get("examples"):
        return schema["examples"][0]
    if "anyOf" in schema:
        return make_sample(document, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            wanted = [
                name for name in properties if name in schema.get("required", ()) or "examples" in properties[name]
            ]
            return {name: make_sample(document, properties[name]) for name in wanted}
        case "array":
            return [make_sample(document, schema["items"])] * schema.get("minItems", 0)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return "x" * max(1, schema.get("minLength", 1))
