"""Finds what a sentence takes back: "we no longer use X", "we switched from X to Y", "not X, it is Y", "forget X".

An ending is a candidate of its own, so that facts do not depend on the order in which sessions are read. It ends what
was said before it in its scope and is about the thing that it names; a denial of that thing stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from consolidator.memory.facts.candidates import ENDED, TAKEN_BACK, Candidate
from consolidator.memory.facts.verbs import begins_order
from consolidator.memory.text.negation import denies_value
from consolidator.memory.text.phrasing import (
    FROM_NOW,
    is_deictic,
    is_hypothetical,
    is_question,
    mend_contractions,
    strip_lead_in,
    strip_punctuation,
)
from consolidator.memory.text.similarity import content_words

_REST = (
    r"(?:(?:\s*[,;:–—]+\s*(?:and |but |so |now |just |instead )*|\s+(?:and (?=we\b|now\b|use\b|it\b|please\b)|but ))"
    r"(?P<rest>.+?))?[.!]*$"
)
_OLD = r"(?P<old>[^,;:]{2,60}?)"
_WE = (
    r"(?P<who>we|i|you|agents?|it|they|(?:the|our) [\w ]{2,30}?)"
    r"(?:'ve| have|'re| are|'m| am)?(?: all)?(?: just| recently)?"
)
_NOT = r"(?:not|don't|do not|doesn't|does not|aren't|isn't|won't|needn't|(?:don't|do not) (?:need|have) to)"
_AGAIN = r" (?:any ?more|any longer)"
_LEFT = (
    r"(?:(?:switched|moved|migrated|went|shifted|changed|got) (?:away from|over from|from|off(?: of)?|rid of) |dropped "
    r"|ditched |abandoned |retired |gave up (?:on )?|(?:stopped|quit) (?:\w+ing )?|phased out |are done with )"
)
_FORGET = r"(?:forget|ignore|disregard|scratch|drop|undo|take back|strike)"
_SAID = (
    r"(?:(?:what|everything|anything|all|whatever) (?:that )?i (?:said|told you|wrote|asked(?: for)?)(?: \w+)?|"
    r"(?:that|the|my) ?(?:earlier |previous |old |last )?(?:rule|thing|bit|part|wish|order|preference|statement)?)"
)
# A form names what is `old`; what takes its place is `new`, or the `rest` of the sentence.
_FORMS = (
    (
        r"(?P<what>(?:the|our|my) [\w /-]{2,40}?) (?:is not|isn't|are not|aren't|is no longer|are no longer)"
        rf"(?: (?P<at>at|on|in|called|named))? {_OLD}(?:{_AGAIN})?(?:,? (?:but|rather) |\s*[,;–—]+ ?(?:but )?)"
        r"(?:it is|it's|they are|they're|that's) (?:now )?(?:(?:at|on|in|called|named) )?(?P<new>[^,;]+?)[.!]*$",
        ENDED,
    ),
    (
        r"(?P<what>(?:the|our|my) [\w /-]{2,40}?) (?:was|has been|is|were|are) (?:now )?(?:renamed|changed|moved|"
        rf"switched|migrated) from {_OLD} to (?P<new>[^,;]+?)[.!]*$",
        ENDED,
    ),
    (rf"{_WE} no longer {_OLD}{_REST}", ENDED),
    (rf"(?:{_WE} |please )?(?:{_NOT}|no need to) {_OLD}{_AGAIN}{_REST}", ENDED),
    (rf"{_WE} changed my mind (?:about|on) {_OLD}{_REST}", TAKEN_BACK),
    (rf"no more {_OLD}{_REST}", ENDED),
    (
        rf"{_WE} (?:switched|moved|migrated|changed|went|upgraded)(?: (?:over|away))? from {_OLD} (?:over )?to "
        rf"(?P<new>[^,;]+?){_REST}",
        ENDED,
    ),
    (rf"{_WE} (?:switched|moved|migrated|changed)(?: over)? to (?P<new>[^,;]{{2,60}}?) from {_OLD}{_REST}", ENDED),
    (rf"{_WE} replaced {_OLD} (?:with|by) (?P<new>[^,;]+?){_REST}", ENDED),
    (rf"{_WE} {_LEFT}{_OLD} in favou?r of (?P<new>[^,;]+?){_REST}", ENDED),
    (rf"{_WE} {_LEFT}{_OLD}(?: (?:last|this) \w+| yesterday| today)?{_REST}", ENDED),
    (rf"(?:please |(?:you|we) (?:can|may|should) )?stop \w+ing (?:the )?{_OLD}{_REST}", ENDED),
    (rf"{_FORGET} {_SAID} ?(?:about|on|regarding|of) {_OLD}{_REST}", TAKEN_BACK),
    (rf"{_FORGET} (?:about )?(?:the )?{_OLD} (?:rule|thing|convention|preference){_REST}", TAKEN_BACK),
    (rf"forget that (?:we|i|you) \w+ {_OLD}{_REST}", TAKEN_BACK),
    (rf"(?:you|we) (?:can|may) (?:now )?{_OLD} again[.!]*$", TAKEN_BACK),
    (rf"forget (?:about )?{_OLD}{_REST}", ENDED),
    (rf"{_OLD} (?:is|was|has been) replaced (?:by|with) (?P<new>[^,;]+?){_REST}", ENDED),
    (
        rf"{_WE} (?:switched|moved|migrated|changed) (?P<what>(?:our|the) [\w ]{{2,30}}?) from {_OLD} to "
        r"(?P<new>[^,;]+?)[.!]*$",
        ENDED,
    ),
    (rf"{_OLD} (?:is|are) (?:gone|dead|history|deprecated|retired|out of use){_REST}", ENDED),
    (rf"(?:it's|it is|that's) (?P<new>[^,;]{{2,60}}?) now,? (?:and )?not {_OLD}{_REST}", ENDED),
    (rf"{_OLD} (?:is|are) (?:no longer|not) (?:used|in use|supported|needed|wanted)(?:{_AGAIN})?{_REST}", ENDED),
    (rf"(?:it's |it is )?not {_OLD}[,;] (?:it is|it's|that's|they're) (?P<new>[^,;]+?)[.!]*$", ENDED),
    (rf"(?:instead of|rather than) {_OLD},? (?P<rest>(?:we (?:now )?use|use|prefer) .+)", ENDED),
    # Beside what a rule reads in the same sentence:
    (
        r"(?!(?:if|when|whenever|unless|before|after)\b).+?(?:,? (?:instead of|rather than)|"
        rf",(?: and| but)? (?:not|never|no longer)) {_OLD}(?:,? (?:here|please|{FROM_NOW}|{_AGAIN.strip()}))?[.!]*$",
        ENDED,
    ),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), predicate) for pattern, predicate in _FORMS)
_FROM_NOW = re.compile(rf"{FROM_NOW},? ", re.IGNORECASE)
_BESIDE = _PATTERNS[-1][0]
_BEFORE = re.compile(  # the verb before what is ended
    r"(?:use|using|need|want|have|like|love|prefer|support|deploy|host|run|ship|build|test|live|work|rely|depend|do|"
    r"require|"
    r"write|answer|commit|the|our|on|in|at|to|with|for)(?:ing)?(?: (?:to|on|with|in|at|for|via|the|our))? (?=\S)",
    re.IGNORECASE,
)
_NO_THING = re.compile(r"(?:just|only|about|really|sure|easy|so|too|that|mentioned)\b", re.IGNORECASE)
_MAX_WORDS = 9  # of what is ended, and of what takes its place
_PERSONAL = re.compile(r"(?:like|love|prefer|live|work|hate|enjoy)\b", re.IGNORECASE)
_NO_CONTENT = content_words(
    "always never use using prefer please only we our they their rule for in on from now wants over than instead rather"
)
_MIN_SHARE = {ENDED: 0.5, TAKEN_BACK: 0.3}  # of the words of a fact's value that an ending has to name


@dataclass(frozen=True, slots=True)
class Ending:
    """What a sentence takes back, and the sentences that it says in place of it."""

    old: str
    predicate: str
    about: tuple[str, ...]  # work, person
    says: tuple[str, ...]


def find_ending(sentence: str) -> Ending | None:
    """Return what a sentence takes back; None where it takes back nothing."""
    sentence = mend_contractions(sentence)
    if is_question(sentence) or is_hypothetical(sentence):
        return None
    bare = _FROM_NOW.sub("", strip_lead_in(sentence))
    for pattern, predicate in _PATTERNS:
        match = pattern.match(bare)
        if match is None:
            continue
        groups = {name: strip_punctuation(group or "") for name, group in match.groupdict().items()}
        old = strip_punctuation(groups["old"])
        who = groups.get("who", "").lower()
        is_personal = who == "i" and _PERSONAL.match(old) is not None
        verb = _BEFORE.match(old)
        old, groups["verb"] = old[verb.end() :] if verb else old, old.partition(" ")[0]
        if (
            len(old.split()) > _MAX_WORDS
            or _NO_THING.match(old)
            or is_deictic(old)
            or not content_words(old) - _NO_CONTENT
        ):
            return None
        about = ("person",) if is_personal else ("work",) if who and who != "i" else ("work", "person")
        says = (sentence,) if pattern is _BESIDE else tuple(_new_sentences(match[0], groups))
        return Ending(old, predicate, about, says)
    return None


def _new_sentences(text: str, groups: dict[str, str]) -> Iterator[str]:
    """Yield what a sentence says of the time from then on."""
    new, what, who = groups.get("new"), groups.get("what"), groups.get("who", "")
    new = "" if new and (len(new.split()) > _MAX_WORDS or is_deictic(new, within=2)) else new
    if new and what:
        yield f"{what} is {at} {new}." if (at := groups.get("at")) else f"No, {what} is {new}."
    elif new and who.lower() == "i" and " from " in text:
        yield f"I live in {new}." if new[0].isupper() else f"I prefer {new}."
    elif new:
        yield f"we use {new}."
    if rest := groups.get("rest"):
        if who and re.match(r"(?:on|to|with|in|at|for) ", rest):
            rest = f"{who} {groups['verb']} {rest}"
        elif rest.startswith("it ") and " " in who:
            rest = who + rest[2:]
        yield f"from now on {rest}" if begins_order(rest.lower().split()) == 0 else rest


def ends(ending: Candidate, assertion: Candidate) -> bool:
    """Tell whether an ending is about what was asserted before it: it names it, and the assertion does not deny it."""
    named = content_words(ending.value) - _NO_CONTENT
    value = content_words(assertion.value) - _NO_CONTENT
    words = value | content_words(f"{assertion.sentence} {assertion.predicate}")
    # "What I said about the staging server" names it, and not where it is.
    thing = content_words(assertion.predicate) - _NO_CONTENT if ending.predicate == TAKEN_BACK else set()
    is_named = len(named & value) >= _MIN_SHARE[ending.predicate] * len(value) or (thing and thing <= named)
    if not value or not named <= words or not is_named:
        return False
    return ending.predicate == TAKEN_BACK or not (
        assertion.predicate.startswith(("rule against", "does not use", "not "))
        or denies_value(assertion.sentence, "", ending.value)
    )


def drop_ended(candidates: Sequence[Candidate], endings: Sequence[Candidate]) -> dict[str, Candidate]:
    """Return the ending of each candidate that a later one ended, by the candidate's id."""
    ended: dict[str, Candidate] = {}
    for ending in sorted(endings, key=lambda item: (item.occurred_at, item.session_id, item.seq, item.id)):
        for candidate in candidates:
            is_before = (candidate.occurred_at, candidate.seq) < (ending.occurred_at, ending.seq)
            if is_before and candidate.id not in ended and ends(ending, candidate):
                ended[candidate.id] = ending
    return ended
