"""What a stated value must be to become a fact: a name, an identifier, a practice. Each check is a predicate."""

from __future__ import annotations

import re

from consolidator.memory.text.phrasing import is_deictic, is_generic, is_past_tense, is_transient, word_set

_NOT_A_NAME = word_set(
    """
    not on in under wrong misspelled misspelt spelled listed
    also correct back when if later at the a an to gold silver platinum bronze regular sorry sure
    very afraid happy good fine done ready right new here out german french english american tomorrow today maybe your
    no yes is was really quite still never always bad
    """
)
_NOT_A_VERB = word_set(
    """
    a an the so too mind again heard that this it in on at for with before after once more happy sure there here nice
    good great easy hard my your our his her their i we you he she they works worked fails seems looks feels gets
    happens comes goes really ever quite only enough gonna
    """
)
_WORK_VERBS = word_set(  # whose orders need only an object: "never say never" is none
    """
    run use write commit push merge rebase squash test edit read check verify format lint install deploy import log mock
    rename delete create add remove update return throw raise cite quote answer reply ask confirm explain summarize
    translate show print list validate escape catch handle cache close open amend guess assume apologize prefix document
    force skip touch put keep send disable enable pin bypass reuse hardcode store execute release publish bump
    """
)
_WHOLE_ACTS = word_set("commit push merge deploy rebase squash release publish amend guess assume")  # "never push"
_NOT_A_KIND = re.compile(
    r"(?:an?|some|all|any|more|less|to(?! \w+ (?:my|own)\b)|for|in|as|you|u|us|me|being able)\b|.*\byou\b|"
    r".*\b(?:idea|approach|plan|design|option|suggestion|proposal|result|solution|version|look|sound)s?\b",
    re.IGNORECASE,
)
_ACTIVITY = re.compile(r"(?:to )?(?=\w+ing\b|(?<=to )\w)", re.IGNORECASE)
_OWN_OR_PLACE = re.compile(r"^to |\b(?:my|our|own) |\b(?:at|by|in|on|around|near) the (?=\w)", re.IGNORECASE)
_NOT_A_PRACTICE = re.compile(
    r"(?:to|for|in|at|up|as|on|by|from|with|of|an?|some|my|your|our|more|less|too|about|only|both|either|different|same|broken|down|slow)\b"
    r"|the (?!(?-i:\S*[A-Z`]))",
    re.IGNORECASE,
)
_NOT_A_CHOICE = re.compile(
    r"(?:ahead|on|with|for|back|through|over|\d|[a-d]\b|both|all|yes|no)\b|.*\b(?:my|your|his|her|their|former|latter)\b"
    r"|(?:the )?(?:\w+ )?(?:option|choice|one|flight|suggestion)s?\b",
    re.IGNORECASE,
)
_PASSED_ON = re.compile(r"(?:^|[~/])(?:Downloads|Desktop|Screenshots|tmp)/", re.IGNORECASE)  # what lies there for now
_OF_THE_MOMENT = re.compile(r"\b(?:not to|instead|options?|if possible|refund|transfer|gift card|payment|pay)\b")
_ORDER = re.compile(r"(?:always|never ever|never|don't ever|do not ever) ", re.IGNORECASE)
_CONDITION = re.compile(r"(?:if|whenever|every time|each time) ", re.IGNORECASE)
_WAITING = re.compile(
    r".*?you(?:'re| are) (?:ready|done|free)|.*?you (?:can|have time|get|find|want|like)\b"
    r"|.*?, (?:it|this|that|there|they|he|she|i|we|the|my|our|nothing|something|everything)\b",
    re.IGNORECASE,
)
# An order to an agent is about its work and not about its listener's life: "your dreams", "yourself".
_LISTENERS = re.compile(
    r"\byourself\b|\byour (?!code|files?|tests?|commits?|messages?|diffs?|answers?|repl|responses?|reasoning|sources?|"
    r"work|steps?|changes?|edits?|outputs?|results?|assumptions?|plans?|reports?|summar|explanations?|comments?|tools?|"
    r"scripts?|commands?|branch)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|uses?|needs?|must|should|can(?:not|'t)?|don't|doesn't|won't|will|always|never|"
    r"i'm|we're|only|\w{3,}s|we (?:\w+ )?\w+)\b|^to \w+|\w's\b",
    re.IGNORECASE,
)


def is_name(text: str) -> bool:
    """Tell whether a text can be a name of at most four words."""
    parts = text.split()
    return (
        0 < len(parts) <= 4
        and parts[0].lower().strip(".") not in _NOT_A_NAME
        and all(part[0].isalpha() for part in parts)
        and not is_deictic(text)
    )


def is_identifier(text: str) -> bool:
    """Tell whether a text is an identifier rather than a word."""
    return bool(re.fullmatch(r"[\w.@+-]{4,64}", text)) and any(char.isdigit() or char in "_@" for char in text)


def is_preferable(text: str) -> bool:
    """Tell whether a text can be preferred in general: no option or payment of the moment."""
    return is_generic(text) and not _OF_THE_MOMENT.search(text)


def is_liked_thing(text: str) -> bool:
    """Tell whether a text is what one can like in general: no proposal just made, nothing of the listener's."""
    if _ACTIVITY.match(text):  # with one's own people and things, too
        text = _OWN_OR_PLACE.sub("", text)
    return _NOT_A_KIND.match(text) is None and is_generic(re.sub(r"\b[Tt]he (?=[A-Z])", "", text))


def is_standing_order(text: str) -> bool:
    """Tell whether a text says what to do always, never or on a condition: not "always a pleasure", no complaint."""
    if is_transient(text) or _LISTENERS.search(text):
        return False
    if _CONDITION.match(text):
        return _WAITING.match(text) is None
    order = re.sub(r"\byour ", "", _ORDER.sub("", text))
    verb, *objects = order.lower().strip(" ,.!").split() or [""]
    return (
        (len(objects) >= 2 or verb in (_WORK_VERBS if objects else _WHOLE_ACTS))
        and verb.replace("-", "").isalpha()
        and verb not in _NOT_A_VERB
        and not verb.endswith("ing")
        and not is_past_tense(order)
        and not is_deictic(" ".join(objects[:2]))
        and not order.endswith(" you")
    )


def is_lasting_clause(text: str) -> bool:
    """Tell whether a clause of its own may last: it may say "the", but neither point nor be of the moment."""
    return not is_deictic(text, within=2) and not is_transient(text) and len(text.split()) >= 2


def is_full_clause(text: str) -> bool:
    """Tell whether a text is a clause with a verb that can stand for itself, and so be remembered."""
    return len(text.split()) >= 3 and is_lasting_clause(text) and _VERB.search(text) is not None


def is_specific(text: str) -> bool:
    """Tell whether a text is particular: a version, path, number, proper name or quoted word, of at most six words."""
    is_named = len(text.split()) <= 6 and re.search(r"\d|`|[A-Z]|[./_]", text) is not None
    return is_named and _lasts(text) and _PASSED_ON.search(text) is None


def is_technique(text: str) -> bool:
    """Tell whether a text names a tool or a technique: no article, at most six words."""
    return len(text.split()) <= 6 and is_generic(text) and _NOT_A_KIND.match(text) is None


def is_practice(text: str) -> bool:
    """Tell whether a text is what people use: not "the same", not "the first one"; "the" only before a name."""
    return len(text.split()) <= 10 and _lasts(text) and _NOT_A_PRACTICE.match(text) is None


def is_choice(text: str) -> bool:
    """Tell whether a text can have been decided on: no option's number, nothing that only this conversation knows."""
    return len(text) >= 3 and _lasts(text) and _NOT_A_CHOICE.match(text) is None


def _lasts(text: str) -> bool:
    return not is_deictic(text) and not is_transient(text)
