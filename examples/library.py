"""Memory in a program: what was said becomes a fact, recalled with its evidence: `python examples/library.py`."""

from consolidator import Memory

SAID = [
    {"type": "UserMessage", "data": {"text": "From now on, always use tabs for indentation."}},
    {"type": "AssistantResponse", "data": {"text": "Tabs it is."}},
    {"type": "SessionEnd", "data": {}},
]

with Memory(agent="coder") as memory:
    memory.record("coder:cli:mara", SAID, idempotency_key="first")  # a repeat writes nothing
    night = memory.run_night()
    print(f"{night.seen} events seen, {night.learned} learned from")
    for fact in memory.facts("tabs"):
        print(f"{fact.sentence}")
        for quote in memory.explain(fact.id).evidence:
            print(f"  said: {quote.quote}")
    print(memory.recall("how do we indent here?").block)
