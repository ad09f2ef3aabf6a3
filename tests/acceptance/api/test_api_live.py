"""Following sessions over HTTP: pieces as they are committed, and streams that are cut anywhere and go on there."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.testing import ScriptedReply
from tests.acceptance.api.server import ApiServer, answer_models, read_frames, serve, use_model
from tests.databases import database_copy
from tests.live import Writer
from tests.support import FULL, PATIENCE

_WRITERS = itertools.count(1)
_ANSWERS = itertools.count(1)
BUSY = (429, 503)
STREAM = {"accept": "text/event-stream"}
FOLLOWERS, SESSIONS, TURNS = (200, 20, 8) if FULL else (16, 4, 2)


@pytest.fixture(scope="module")
def live_api(server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A service with room for many streams."""
    folder: Path = tmp_path_factory.mktemp("live")
    with (
        answer_models(answer_in_pieces) as model,
        database_copy(server_dsn, template) as dsn,
        serve(dsn, folder, **use_model(model)) as server,
    ):
        yield server


def answer_in_pieces(request: dict[str, Any]) -> ScriptedReply:
    """Answer over a few moments; now and then the connection breaks off in the middle."""
    number = next(_ANSWERS)
    if number % 9 == 8:
        return ScriptedReply.disconnecting(f"Broken answer {number}, of which no more comes.", 3)
    return ScriptedReply(text=" ".join(f"answer {number}-{piece}" for piece in range(6)), pace=0.02)


def write(api: ApiServer, session_id: str, *steps: str) -> None:
    """Write to a session as another process would: `begin`, `end`, `replace`, or a piece of text."""

    async def work(database: Database) -> None:
        writer = Writer(database, session_id)
        writer.answers = next(_WRITERS) * 100  # no two answers of a session have one id
        for step in steps:
            match step:
                case "begin":
                    await writer.begin()
                case "end":
                    await writer.end("whole text")
                case "replace":
                    await writer.replace()
                case _:
                    await writer.say(step)

    api.run(work)


def name_frames(frames: list[tuple[str, str | None, Any]]) -> list[str]:
    """Return frames as short lines."""
    return [f"{at} {kind} {data.get('text', '') or data.get('type', '')}".rstrip() for kind, at, data in frames]


def test_pieces_come_as_they_are_committed_and_a_void_after_a_reconnect(live_api: ApiServer) -> None:
    session_id = live_api.open_session("live:web:mara")
    path = f"/sessions/{session_id}/events"
    with live_api.client() as client:
        with client.stream("GET", path, headers=STREAM) as stream:
            frames = read_frames(stream.iter_lines())
            assert name_frames([next(frames)]) == ["1 event SessionStart"]
            writing = threading.Thread(target=write, args=(live_api, session_id, "begin", "Goo", "d "))
            writing.start()
            assert name_frames([next(frames) for _ in range(3)]) == [
                "2 event ThinkingStart",
                "2.1 piece Goo",
                "2.2 piece d",
            ]
            writing.join()
        write(live_api, session_id, "begin", "Good day.", "end")
        with client.stream("GET", path, headers={**STREAM, "last-event-id": "2.1"}) as stream:
            frames = read_frames(stream.iter_lines())
            assert name_frames([next(frames) for _ in range(3)]) == [
                "2.2 piece d", "3 event ThinkingStart", "3.1 piece Good day.",
            ]  # fmt: skip
            kind, _, answer = next(frames)
            assert (kind, answer["data"]["complete"], answer["data"]["chunks"]) == ("event", True, 1)
            assert "text" not in answer["data"]
        whole = client.get(path, params={"after": 3}).json()["events"][0]
        assert whole["data"]["text"] == "whole text"
        with client.stream("GET", path, params={"whole": True, "after": 3}, headers=STREAM) as stream:
            assert next(read_frames(stream.iter_lines()))[2]["data"]["text"] == "whole text"


def test_an_answer_is_streamed_until_it_is_complete(live_api: ApiServer) -> None:
    path = f"/sessions/{live_api.open_session('live:web:asked')}/messages"
    with live_api.client(**STREAM) as client, client.stream("POST", path, json={"text": "Tabs?"}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        frames = list(read_frames(stream.iter_lines()))
    assert (frames[-1][0], frames[-1][2]["reason"]) == ("end", "settled")
    assert any(kind == "piece" for kind, _, _ in frames)
    assert frames[-2][2]["type"] == "AssistantResponse"


def test_a_replaced_answer_is_void_for_who_saw_its_pieces(live_api: ApiServer) -> None:
    session_id = live_api.open_session("live:web:ines")
    write(live_api, session_id, "begin", "Goo", "replace")
    with live_api.client() as client:
        headers = {**STREAM, "last-event-id": "2.1"}
        with client.stream("GET", f"/sessions/{session_id}/events", headers=headers) as stream:
            kind, at, data = next(read_frames(stream.iter_lines()))
    assert (kind, at, data["event"]["type"]) == ("void", "3", "PolicyDecision")
    assert data["message_id"] == data["event"]["data"]["message_id"]


@pytest.mark.parametrize("last_id", ["x", "9999", "1.2.3", "1e9"])
def test_an_id_that_no_stream_sent_is_refused(live_api: ApiServer, last_id: str) -> None:
    session_id = live_api.open_session("live:web:lena")
    with live_api.client(**STREAM) as client:
        answer = client.get(f"/sessions/{session_id}/events", headers={"last-event-id": last_id})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


async def read_lines(stream: httpx2.Response) -> AsyncIterator[tuple[str, str | None, str]]:
    """Yield a stream's frames: kind, id and data as text."""
    fields: dict[str, str] = {}
    async for line in stream.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and "event" in fields:
            yield fields["event"], fields.get("id"), fields["data"]
            fields = {}


async def follow_to_end(api: ApiServer, client: httpx2.AsyncClient, session_id: str, seed: int) -> list[str]:
    """Follow a session to its end over connections that are cut at random; return what came, as words."""
    chance, last_id, words = random.Random(seed), "", list[str]()
    while True:
        left = chance.randint(1, 20)
        headers = {**STREAM, **({"last-event-id": last_id} if last_id else {})}
        async with client.stream("GET", f"/sessions/{session_id}/events", headers=headers) as stream:
            if stream.status_code in BUSY:
                await asyncio.sleep(float(stream.headers["retry-after"]))
                continue
            assert stream.status_code == 200
            async for kind, frame_id, text in read_lines(stream):
                if kind == "end" and json.loads(text)["reason"] == "ended":
                    return words
                if kind == "end":  # the database is at its limit: come again
                    break
                data, last_id = json.loads(text), frame_id or ""
                words.append("void" if kind == "void" else data.get("type") or data["text"])
                left -= 1
                if not left:
                    break


async def request(client: httpx2.AsyncClient, method: str, path: str, **options: Any) -> httpx2.Response:
    """Ask the service, again where it is busy."""
    while True:
        answer = await client.request(method, path, **options)
        if answer.status_code not in BUSY:
            return answer.raise_for_status()
        await asyncio.sleep(float(answer.headers["retry-after"]))


class Talker:
    """People who write to a session over HTTP: messages, steers and follow-ups, each of some of them sent twice."""

    def __init__(self, client: httpx2.AsyncClient, session_id: str, seed: int) -> None:
        self._client = client
        self._name = session_id
        self._path = f"/sessions/{session_id}"
        self._chance = random.Random(seed)
        self._count = 0
        self.said: dict[int, tuple[str, str]] = {}  # mode and text of what was accepted, by seq

    async def write_turns(self, count: int) -> None:
        """Say something while earlier answers come or not; then end the session, when everything is answered."""
        for _ in range(count):
            await self._say("messages", "message")
            if self._chance.random() < 0.4:
                await asyncio.sleep(self._chance.random() / 5)  # anywhere in the answer
                await self._say(*self._chance.choice([("steer", "steer"), ("follow-up", "follow_up")]))
            if self._chance.random() < 0.5:
                await self._wait_until_answered()
        await self._wait_until_answered()
        await request(self._client, "POST", f"{self._path}/end", json={})

    async def _say(self, route: str, mode: str) -> None:
        self._count += 1
        text = f"{self._name} says {self._count}"
        times = 2 if self._chance.random() < 0.3 else 1  # as who got no answer to the first
        key = {"idempotency-key": f"{self._name}-{self._count}"}
        seqs = set[int]()
        for _ in range(times):
            answer = await request(self._client, "POST", f"{self._path}/{route}", json={"text": text}, headers=key)
            seqs.add(answer.json()["seq"])
        assert len(seqs) == 1
        self.said[seqs.pop()] = (mode, text)

    async def _wait_until_answered(self) -> None:
        while (await request(self._client, "GET", self._path)).json()["pending"]:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.2)


async def read_committed(client: httpx2.AsyncClient, session_id: str) -> tuple[list[str], dict[int, Any]]:
    """Return a session's log as a follower must get it, and its messages of people by seq.

    Each chunk comes after the event that it was committed after. Events whose answer had chunks are void, if they say
    that it does not count.
    """
    exported = await request(client, "GET", f"/sessions/{session_id}/export", params={"exact": True})
    lines = [json.loads(line) for line in exported.text.splitlines()]
    chunks = [line["chunk"] for line in lines if "chunk" in line]
    words, said, begun = list[str](), dict[int, Any](), {chunk["message_id"] for chunk in chunks}
    for event in sorted((line for line in lines if "seq" in line), key=lambda event: event["seq"]):
        data = event["data"]
        is_void = event["type"] == "Error" or data.get("decision") == "generation_replaced"
        words.append("void" if is_void and data.get("message_id") in begun else event["type"])
        placed = [chunk for chunk in chunks if chunk["after_seq"] == event["seq"]]
        words += [chunk["delta"] for chunk in sorted(placed, key=lambda chunk: (chunk["started_seq"], chunk["seq"]))]
        if event["type"] == "UserMessage" and data.get("origin", "user") == "user":
            said[event["seq"]] = (data["mode"], data["text"])
    return words, said


async def test_streams_that_are_cut_at_random_miss_nothing_and_get_nothing_twice(live_api: ApiServer) -> None:
    names = [await asyncio.to_thread(live_api.open_session, f"live:web:many{n}") for n in range(SESSIONS)]
    authorized = {"authorization": f"Bearer {live_api.owners_token}"}
    limits = httpx2.Limits(max_connections=None)
    async with (
        asyncio.timeout(PATIENCE),
        httpx2.AsyncClient(
            base_url=live_api.address + "/v1", headers=authorized, timeout=PATIENCE, limits=limits
        ) as client,
    ):
        following = [
            asyncio.create_task(follow_to_end(live_api, client, names[number % SESSIONS], number))
            for number in range(FOLLOWERS)
        ]
        talkers = [Talker(client, name, seed) for seed, name in enumerate(names)]
        await asyncio.gather(*(talker.write_turns(TURNS) for talker in talkers))
        received = await asyncio.gather(*following)
        committed = [await read_committed(client, name) for name in names]
    for number, words in enumerate(received):
        assert words == committed[number % SESSIONS][0]
    for talker, (words, said) in zip(talkers, committed, strict=True):
        assert said == talker.said  # each once, where the answer of the service said
        assert words[-1] == EventType.SESSION_END.value
        assert EventType.ASSISTANT_RESPONSE.value in words
