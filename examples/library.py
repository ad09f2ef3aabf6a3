"""Memory in a program: what it is told and what it reads, recalled with its evidence: `python examples/library.py`."""

from consolidator import Memory

SAID = [
    {"type": "UserMessage", "data": {"text": "From now on, always use tabs for indentation."}},
    {"type": "AssistantResponse", "data": {"text": "Tabs it is."}},
    {"type": "SessionEnd", "data": {}},
]

with Memory(agent="coder") as memory:
    told = memory.remember("we deploy on Tuesdays")  # believed at once
    print(f"{'known' if told.known else 'new'}: {told.statement}")

    memory.record("coder:cli:mara", SAID, idempotency_key="first")  # a repeat writes nothing
    night = memory.run_night()
    print(f"{night.seen} events seen, {night.learned} learned from")
    for fact in memory.facts("tabs"):
        print(fact.sentence)
        for quote in memory.explain(fact.id).evidence:
            print(f"  said: {quote.quote}")

    print(memory.recall("when do we deploy?").block)
