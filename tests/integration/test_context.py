"""What the model sees of a session: the right turns, whole calls, within the budget, in both message formats."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.runtime.context import build_context
from tests.support import answered, called, logged, returned, said


async def test_a_session_becomes_messages(database: Database) -> None:
    await logged(
        database,
        "one",
        [
            said("What is in the file?"),
            answered("I look."),
            called("c1", "read", {"path": "a.txt"}),
            returned("c1", "hello"),
            answered("It says hello."),
        ],
    )
    async with database.connection() as conn:
        found = await build_context(conn, "one", system="Be brief.")
    assert found.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is in the file?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "hello"},
        {"role": "assistant", "content": "It says hello."},
    ]
