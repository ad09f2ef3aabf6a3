"""Synthetic dialogues in the LoCoMo format: two people ask each other what happened, with small talk in between.

As in real ones, the turn that answers a question often shares no words with it, but follows a turn that does; the
observations are written in the third person.
"""

from __future__ import annotations

import random
from typing import Any

_PEOPLE = (("Mara", "Jonas"), ("Priya", "Tom"), ("Lucia", "Ben"))
_FRIENDS = ("my sister", "an old friend", "my neighbour", "two colleagues", "my cousin", "my dad", "the kids")
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
_ASK_TEMPLATES = (
    "How did {event} go?", "So, tell me, how was {event}?", "I wanted to ask about {event}, did it work out?",
    "Last time you mentioned {event}. What happened?",
)  # fmt: skip
_TELL_TEMPLATES = (
    "It was amazing, I went with {friend} and we {did} in the end.", "Fine! {friend} came along, and I {did}.",
    "So good. I {did}, and {friend} cheered all the way.", "Honestly, I {did}. {friend} was there too, in {place}.",
)  # fmt: skip
_QUESTION_TEMPLATES = (
    ("Who went with {who} to {event}?", 1), ("What did {who} do at {event}?", 1), ("Who saw how {who} {did}?", 1),
    ("When did {who} talk about {topic}?", 2), ("What came of {who}'s {topic} plans?", 1),
)  # fmt: skip


def generate_dialogue(seed: int, sessions: int = 20, topics: int = 2) -> dict[str, Any]:
    """Return a dialogue with its observations and questions, the same for the same seed."""
    rng = random.Random(seed)
    people = _PEOPLE[seed % len(_PEOPLE)]
    record: dict[str, Any] = {"speaker_a": people[0], "speaker_b": people[1], "qa": []}
    for number in range(1, sessions + 1):
        turns: list[dict[str, str]] = []
        observations: dict[str, list[list[str]]] = {name: [] for name in people}
        for _ in range(topics):
            _add_small_talk(rng, people, turns, number, rng.randrange(2, 5))
            _add_topic(rng, people, turns, number, observations, record["qa"])
        record[f"session_{number}"] = turns
        month = _MONTHS[number % len(_MONTHS)]
        record[f"session_{number}_date_time"] = f"{1 + number % 11}:{10 + number} pm on {number} {month}, 2023"
        record[f"session_{number}_observation"] = observations
    return record


def _add_turn(turns: list[dict[str, str]], number: int, speaker: str, text: str) -> str:
    turn_id = f"D{number}:{len(turns) + 1}"
    turns.append({"speaker": speaker, "dia_id": turn_id, "text": text})
    return turn_id


def _add_small_talk(
    rng: random.Random, people: tuple[str, str], turns: list[dict[str, str]], number: int, count: int
) -> None:
    for position in range(count):
        _add_turn(turns, number, people[position % 2], rng.choice(_FILLER))


def _add_topic(
    rng: random.Random,
    people: tuple[str, str],
    turns: list[dict[str, str]],
    number: int,
    observations: dict[str, list[list[str]]],
    questions: list[dict[str, Any]],
) -> None:
    """Add turns in which one asks and the other tells, mostly an observation of it, and a question."""
    who, other = rng.sample(people, 2)
    event, did, topic = rng.choice(_EVENTS)
    values = {"event": event, "did": did, "topic": topic, "who": who}
    values |= {"friend": rng.choice(_FRIENDS), "place": rng.choice(_PLACES)}
    asking_turn = _add_turn(turns, number, other, rng.choice(_ASK_TEMPLATES).format(event=event))
    telling_turn = _add_turn(turns, number, who, rng.choice(_TELL_TEMPLATES).format(**values))
    _add_turn(turns, number, other, rng.choice(_FILLER))
    plan_turn = _add_turn(
        turns, number, who, f"And next month I want to go back to {values['place']}, {rng.choice(_FILLER)}"
    )
    friend = values["friend"].replace("my ", "their ")
    if rng.random() < 0.8:
        observations[who].append([f"{who} went to {values['event']} with {friend} and {did}.", telling_turn])
    if rng.random() < 0.5:
        observations[who].append([f"{who} plans to return to {values['place']} next month.", plan_turn])
        questions.append({"question": f"Where does {who} want to go back to?", "evidence": [plan_turn], "category": 1})
    question, turns_needed = rng.choice(_QUESTION_TEMPLATES)
    evidence = [telling_turn] if turns_needed == 1 else [asking_turn, telling_turn]
    questions.append({"question": question.format(**values), "evidence": evidence, "category": rng.randrange(1, 5)})
