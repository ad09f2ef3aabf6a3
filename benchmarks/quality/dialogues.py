"""Dialogues made up in the LoCoMo format: two people who ask each other what happened, with small talk between.

As in real ones, what answers a question often stands in a turn of other words than the question's, after a turn that
has them; and facts about it are written in a third person's words.
"""

from __future__ import annotations

import random
from typing import Any

_PEOPLE = (("Mara", "Jonas"), ("Priya", "Tom"), ("Lucia", "Ben"))
_WITH = ("my sister", "an old friend", "my neighbour", "two colleagues", "my cousin", "my dad", "the kids")
_PLACES = ("Lisbon", "the lake", "Utrecht", "the old harbour", "Kraków", "the community hall", "Bergen", "the park")
_KINDS = (
    ("pottery", "workshop", "made a", ("blue bowl", "tall vase", "teapot", "clay owl", "cracked mug")),
    ("charity", "run", "raised money for", ("the shelter", "the hospital", "a school", "refugees", "the library")),
    ("violin", "recital", "played", ("a sonata", "a Bach partita", "a folk tune", "a duet", "an encore")),
    ("camping", "trip", "saw", ("a meteor shower", "a fox", "the northern lights", "a bear", "fireflies")),
    ("cooking", "class", "learned to make", ("ramen", "dumplings", "a souffle", "paella", "sourdough")),
    ("swimming", "meet", "came", ("second", "last", "first in butterfly", "fourth", "third in the relay")),
    ("garden", "project", "planted", ("forty tulips", "a pear tree", "tomatoes", "wild herbs", "a hedge")),
    ("chess", "tournament", "lost to", ("a child", "the champion", "a retired teacher", "a computer", "Viktor")),
    ("photo", "exhibition", "sold a picture of", ("a heron", "the bridge", "old boats", "a dancer", "fog")),
    ("dance", "course", "tried", ("the tango", "the rumba", "tap", "ballet", "a waltz")),
    ("museum", "visit", "loved", ("the dinosaurs", "the mummies", "a Vermeer", "the planetarium", "old maps")),
    ("adoption", "day", "brought home", ("a beagle", "two kittens", "a parrot", "a turtle", "a rabbit")),
)
_EVENTS = [(f"the {what} {kind}", f"{did} {thing}", what) for what, kind, did, things in _KINDS for thing in things]
_FILLER = (
    "That's great to hear, you always make me smile!", "Wow, sounds like so much fun.", "I know, it's been busy.",
    "Thanks! How have you been lately?", "Yeah, life is good, just trying to take it one day at a time.",
    "I totally agree, time with family is so important.", "Take care, talk to you soon!", "Hey! Long time no see.",
    "What a week, I really need a rest.", "Did you do anything nice on the weekend?", "I'm so proud of you!",
    "That means a lot, thank you.", "It was a great time with everyone there.", "Nature always helps me relax.",
)  # fmt: skip
_MONTHS = ("January", "March", "May", "June", "August", "October", "December")
_ASKS = (
    "How did {event} go?", "So, tell me, how was {event}?", "I wanted to ask about {event}, did it work out?",
    "Last time you mentioned {event}. What happened?",
)  # fmt: skip
_TELLS = (
    "It was amazing, I went with {friend} and we {did} in the end.", "Fine! {friend} came along, and I {did}.",
    "So good. I {did}, and {friend} cheered all the way.", "Honestly, I {did}. {friend} was there too, in {place}.",
)  # fmt: skip
_QUESTIONS = (
    ("Who went with {who} to {event}?", 1), ("What did {who} do at {event}?", 1), ("Who saw how {who} {did}?", 1),
    ("When did {who} talk about {topic}?", 2), ("What came of {who}'s {topic} plans?", 1),
)  # fmt: skip


def dialogue(seed: int, sessions: int = 20, topics: int = 2) -> dict[str, Any]:
    """Return a dialogue with its observations and questions."""
    chance = random.Random(seed)
    people = _PEOPLE[seed % len(_PEOPLE)]
    record: dict[str, Any] = {"speaker_a": people[0], "speaker_b": people[1], "qa": []}
    for number in range(1, sessions + 1):
        turns: list[dict[str, str]] = []
        noted: dict[str, list[list[str]]] = {name: [] for name in people}
        for _ in range(topics):
            _small_talk(chance, people, turns, number, chance.randrange(2, 5))
            _topic(chance, people, turns, number, noted, record["qa"])
        record[f"session_{number}"] = turns
        month = _MONTHS[number % len(_MONTHS)]
        record[f"session_{number}_date_time"] = f"{1 + number % 11}:{10 + number} pm on {number} {month}, 2023"
        record[f"session_{number}_observation"] = noted
    return record


def _say(turns: list[dict[str, str]], number: int, who: str, text: str) -> str:
    identity = f"D{number}:{len(turns) + 1}"
    turns.append({"speaker": who, "dia_id": identity, "text": text})
    return identity


def _small_talk(
    chance: random.Random, people: tuple[str, str], turns: list[dict[str, str]], number: int, count: int
) -> None:
    for place in range(count):
        _say(turns, number, people[place % 2], chance.choice(_FILLER))


def _topic(
    chance: random.Random,
    people: tuple[str, str],
    turns: list[dict[str, str]],
    number: int,
    noted: dict[str, list[list[str]]],
    asked: list[dict[str, Any]],
) -> None:
    """Have one ask and the other tell; note it, mostly, and ask for it."""
    who, other = chance.sample(people, 2)
    event, did, topic = chance.choice(_EVENTS)
    told = {"event": event, "did": did, "topic": topic, "who": who}
    told |= {"friend": chance.choice(_WITH), "place": chance.choice(_PLACES)}
    asking = _say(turns, number, other, chance.choice(_ASKS).format(event=event))
    telling = _say(turns, number, who, chance.choice(_TELLS).format(**told))
    _say(turns, number, other, chance.choice(_FILLER))
    more = _say(turns, number, who, f"And next month I want to go back to {told['place']}, {chance.choice(_FILLER)}")
    friend = told["friend"].replace("my ", "their ")
    if chance.random() < 0.8:
        noted[who].append([f"{who} went to {told['event']} with {friend} and {did}.", telling])
    if chance.random() < 0.5:
        noted[who].append([f"{who} plans to return to {told['place']} next month.", more])
        asked.append({"question": f"Where does {who} want to go back to?", "evidence": [more], "category": 1})
    question, turns_needed = chance.choice(_QUESTIONS)
    evidence = [telling] if turns_needed == 1 else [asking, telling]
    asked.append({"question": question.format(**told), "evidence": evidence, "category": chance.randrange(1, 5)})
