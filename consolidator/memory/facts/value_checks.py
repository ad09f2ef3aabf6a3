"""What a stated value must be to become a fact: a name, an identifier, a practice. Each check is a predicate."""

from __future__ import annotations

import re

from consolidator.memory.text.phrasing import is_deictic, is_generic, is_past_tense, is_transient, word_set

_NOT_A_VERB = word_set(
    """
    a an the so too mind again again, heard that this it in on at for with before after once more happy sure there
    here nice good great easy hard my your our his her their i we you he she they works worked fails seems looks
    feels gets happens comes goes really ever quite only enough gonna
    """
)
_NOT_A_NAME = word_set(
    """
    not on in under spelled wrong misspelled listed already also correct incorrect back when if later at crazy old
    the a an to gold silver platinum bronze regular sorry sure afraid happy good fine done ready ok okay sick
    right new here out german french english spanish american british italian chinese indian canadian tomorrow today
    maybe anything whatever your daddy no yes is was very really quite extremely still never always bad
    """
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|uses?|needs?|must|should|can(?:not|'t)?|don't|doesn't|won't|will|runs?|lives?|"
    r"prefers?|likes?|wants?|always|never|goes|works?|requires?|belongs?|means?|takes?|comes?|costs?|hates?|speaks?|"
    r"i'm|we're|expires?|depends?|owns?|handles?|hosts?|deploys?|starts?|ends?|breaks?|only)\b|\w's\b",
    re.IGNORECASE,
)
_NOT_A_TECHNIQUE = re.compile(r"(?:an?|some|any|more|less|to|for|in|as)\b", re.IGNORECASE)
_NOT_A_KIND = re.compile(
    r"(?:an?|some|all|you|u|me|us|being able|to (?:see|know|hear|get|have|change|book|cancel|make|keep|use))\b"
    r"|.*\b(?:idea|approach|plan|design|option|suggestion|proposal|result|solution|version|look|sound)s?\b",
    re.IGNORECASE,
)
_GERUND = re.compile(r"(?:\w+ing|to \w+)\b")
# In what somebody likes to do: their own people and things, and places. "Seeing you", "this game" are of the moment.
_OWN_OR_PLACE = re.compile(r"\b(?:my|our|own) |\b(?:at|by|in|on|around|near) the (?=\w)", re.IGNORECASE)
_KIND_OF_SENSATION = re.compile(
    r"the (?:smell|sound|taste|feel|feeling|sight|look|thrill|joy|rush|quiet|challenge) of (?!the|this|that|my|your)",
    re.IGNORECASE,
)
_TITLE = re.compile(r"\b[Tt]he (?=[A-Z])")
_NO_LIKING = re.compile(r"\byou\b|^to$", re.IGNORECASE)
_NEWS = word_set(
    """
    worries worry problems problem errors error failures failure issues issue results result changes change conflicts
    warnings matches differences regrets thanks ideas idea questions hits objections complaints surprises excuses luck
    clue rush way need hurry doubt wonder pressure plans feelings matter news updates more no
    """
)
_NOT_A_PRACTICE = re.compile(
    r"(?:to|for|in|at|up|an?|some|my|your|our|more|less|too|about|only|both|either|different|same)\b"
    r"|the (?!(?-i:\S*[A-Z`]))",
    re.IGNORECASE,
)
_NOT_A_CHOICE = re.compile(
    r"(?:the|ahead|on|with|for|back|through|over|\d|[a-d]\b|both|all|yes|no)\b"
    r"|.*\b(?:options?|choices?|first|second|third|fourth|former|latter|last|cheapest|flights?|plan|suggestion)\b",
    re.IGNORECASE,
)
_NOT_A_HABIT = re.compile(
    r"(?:know|think|thought|understand|want(?:ed)?|see|get|find|feel|receive|remember|asked?|mind|thought)\b",
    re.IGNORECASE,
)
_NOT_A_CORRECTION = re.compile(r"(?:not|wrong|still|failing|broken|missing|the|in the|too|also)\b", re.IGNORECASE)
_OPTION = re.compile(r"\b(?:not to|instead|options?|if possible|refund|transfer|gift card|payment|pay)\b")
_PAYMENT = re.compile(r"\b(?:card|certificate|gift|membership)s?\b")
_ENDED = re.compile(r"\b(?:no (?:longer|more)|not|never|wrong)\b", re.IGNORECASE)
_ORDER = re.compile(r"^(?:always|never ever|never|don't ever|do not ever) ", re.IGNORECASE)
_UNLESS = re.compile(
    r",? unless (?:i|we|you are|you're|it's|explicitly|asked|told|absolutely|really|necessary)\b.*", re.IGNORECASE
)
_USED_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?$")  # "console.log": used, and no file
_MASS_NOUN = re.compile(
    r"(?:compat|compatibility|boilerplate|magic|duplication|inheritance|recursion|indirection|nesting|css|html|sql|"
    r"jquery|markdown|jargon|slang|fluff|filler|praise|flattery|sarcasm)$"
)
# What an agent works with and on; and that its words are about whoever speaks to it.
_WORK = re.compile(
    r"\b(?:code|codebase|files?|director(?:y|ies)|folders?|tests?|suite|commits?|branch(?:es)?|main|master|"
    r"messages?|diffs?|"
    r"answers?|repl(?:y|ies)|responses?|reasoning|sources?|work|steps?|changes?|edits?|outputs?|results?|assumptions?|"
    r"plans?|reports?|summar(?:y|ies)|explanations?|docs?|documentation|comments?|names?|functions?|types?|errors?|"
    r"server|database|tables?|quer(?:y|ies)|scripts?|commands?|tools?|dependenc(?:y|ies)|packages?|numbers?|prices?|"
    r"customers?|clients?|users?|orders?|bookings?|reservations?|emails?|mails?|payments?|units?|dates?|tokens?|"
    r"secrets?|"
    r"passwords?|concise|brief|polite|formal|precise|specific|explicit|me|us|my|our|i|we)\b|[`_/@#]|\w\.\w|\b-\w|"
    r"(?-i:[A-Z]{2})",
    re.IGNORECASE,
)
_WORK_VERB = re.compile(
    r"(?:run|use|write|commit|push|merge|rebase|squash|test|edit|read|check|verify|format|lint|install|deploy|"
    r"import|export|"
    r"log|mock|hardcode|rename|delete|create|add|remove|update|return|throw|raise|cite|quote|answer|reply|respond|ask|"
    r"confirm|explain|summari[sz]e|translate|show|print|list|search|book|cancel|refund|ship|send|include|validate|"
    r"escape|catch|handle|cache|close|open|amend|guess|assume|apologi[sz]e|round|sort|prefix|name|document|call)\b",
    re.IGNORECASE,
)
_ANYBODYS = re.compile(r"\b(?:your|yourself|you)\b", re.IGNORECASE)
_SECOND_PERSON_WORK = re.compile(
    r"\b(?:code|files?|tests?|commits?|branch(?:es)?|messages?|diffs?|answers?|repl(?:y|ies)|responses?|reasoning|"
    r"sources?|"
    r"work|steps?|changes?|edits?|outputs?|results?|assumptions?|plans?|reports?|summar(?:y|ies)|explanations?|"
    r"comments?|"
    r"tools?|scripts?|commands?|me|us|my|our)\b|[`_/@#]",
    re.IGNORECASE,
)
_AT_HAND = re.compile(r"[/@#]|\b\w+\.\w{2,4}\b|\bunless\b")  # a certain file or issue, or a condition of the moment
_COMPLAINT = re.compile(
    r".*?, (?:it|this|that|there|they|he|she|i|we|the|my|our|nothing|something|everything)\b", re.IGNORECASE
)
_WAITING = re.compile(r"you(?:'re| are) (?:ready|done|free)|you (?:can|have time|get|find|want|like)\b", re.IGNORECASE)
_CALENDAR = re.compile(
    r"January|February|March|April|May|June|July|August|September|October|November|December|Mon|Tues|Wednes|Thurs|Fri|"
    r"Satur|Sun|I$"
)


def is_anything(text: str) -> bool:
    """Tell whether a text is not empty: the pattern alone decides."""
    return bool(text)


def is_short(text: str) -> bool:
    """Tell whether a text has at most four words."""
    return len(text.split()) <= 4


def is_not_transient(text: str) -> bool:
    """Tell whether a text is not about the moment."""
    return not is_transient(text)


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


def is_handle(text: str) -> bool:
    """Tell whether a text can be the name of an account."""
    return is_name(text) or is_identifier(text)


def is_address(text: str) -> bool:
    """Tell whether a text can be a postal address: no URL, and nothing that is pointed at."""
    return not is_deictic(text, within=2) and ":/" not in text


def is_not_ended(text: str) -> bool:
    """Tell whether a text neither denies nor ends what it states ("no longer", "not")."""
    return not _ENDED.search(text)


def is_job(text: str) -> bool:
    """Tell whether a text can be an occupation of at most six words."""
    return len(text.split()) <= 6 and is_not_ended(text)


def is_preferable(text: str) -> bool:
    """Tell whether a text can be preferred in general: no option or payment of the moment."""
    return is_generic(text) and not _OPTION.search(text)


def is_kind_of_thing(text: str) -> bool:
    """Tell whether a text is a kind of thing that one can like: no article, no word for a proposal just made."""
    return is_generic(text) and _NOT_A_KIND.match(text) is None


def is_liked_thing(text: str) -> bool:
    """Tell whether a text is what one can like: a kind of thing, or something to do, with one's own people, too."""
    if _NO_LIKING.search(text):
        return False
    if _GERUND.match(text):
        text = _OWN_OR_PLACE.sub("", text)
    return is_kind_of_thing(_KIND_OF_SENSATION.sub("", text))


def is_favorite(text: str) -> bool:
    """Tell whether a text can be somebody's favorite: generic, or a title such as "The Hobbit"."""
    return is_generic(_TITLE.sub("", text))


def is_unwanted_kind(text: str) -> bool:
    """Tell whether a text is a kind of thing that one can want none of: plural, and no news ("no errors")."""
    head = re.split(r" (?:in|on|for|at|when|inside|outside|with|from|to|of|unless|without)\b", text, maxsplit=1)[0]
    words = head.lower().split()
    return (
        0 < len(words) <= 4
        and is_generic(text)
        and not _NEWS & {words[0], words[-1]}
        and (re.search(r"(?<![su])s$|ing$|`$", words[-1]) or _MASS_NOUN.match(words[-1])) is not None
        and not any(is_past_tense(word) for word in words[1:])
    )


def is_imperative(text: str) -> bool:
    """Tell whether a text says what to do always or never: not "always a pleasure", not "never mind"."""
    parts = text.split()
    first = parts[0].lower().strip(",.!") if parts else ""
    return (
        len(parts) >= 2
        and first.isalpha()
        and first not in _NOT_A_VERB
        and not first.endswith("ing")
        and not is_past_tense(text)
        and not is_deictic(" ".join(parts[1:3]))
        and not is_transient(text)
    )


def is_habit(text: str) -> bool:
    """Tell whether a text is what somebody does always or never."""
    return is_imperative(text) and is_generic(text) and not _NOT_A_HABIT.match(text)


def is_standing_order(text: str) -> bool:
    """Tell whether a text after its "always" or "never" says what to do."""
    order = _ORDER.sub("", text)
    own_work = re.sub(r"\byour ", "", order) if _SECOND_PERSON_WORK.search(order) else order
    return is_imperative(own_work) and is_about_work(order)


def is_about_work(order: str) -> bool:
    """Tell whether an order is about what an agent does, and no advice to anybody ("give up on your dreams")."""
    if _ANYBODYS.search(order):
        return _SECOND_PERSON_WORK.search(order) is not None or (
            _WORK_VERB.match(order) is not None and re.search(r"\byour(?:self)?\b", order, re.IGNORECASE) is None
        )
    return _WORK_VERB.match(order) is not None or _WORK.search(order) is not None


def is_standing_condition(text: str) -> bool:
    """Tell whether a text asks for something on a condition: not "whenever you are ready", no complaint."""
    if _WAITING.search(text) or _COMPLAINT.match(text) or is_transient(text):
        return False
    return re.search(r"\byour(?:self)?\b", text, re.IGNORECASE) is None or _SECOND_PERSON_WORK.search(text) is not None


def is_lasting_clause(text: str) -> bool:
    """Tell whether a clause of its own may last: it may say "the", but neither point nor be of the moment."""
    return not is_deictic(text, within=2) and not is_transient(text) and len(text.split()) >= 2


def is_lasting_order(text: str) -> bool:
    """Tell whether an order may last: it may name what a project has, but points at nothing."""
    return is_lasting_clause(text) and not is_deictic(text)


def is_lasting_generic(text: str) -> bool:
    """Tell whether a clause may last and names nothing at hand."""
    return is_generic(text) and is_lasting_clause(text)


def is_full_clause(text: str) -> bool:
    """Tell whether a text is a clause with a verb that can stand for itself, and so be remembered."""
    return len(text.split()) >= 3 and is_lasting_clause(text) and _VERB.search(text) is not None


def is_specific(text: str) -> bool:
    """Tell whether a text is particular: a version, path, number, proper name or quoted word, of at most six words."""
    return (
        len(text.split()) <= 6
        and re.search(r"\d|`|[A-Z]|[./_]", text) is not None
        and not is_transient(text)
        and not is_deictic(text)
    )


def is_corrected_value(text: str) -> bool:
    """Tell whether a text can be the right value of something: not "still failing", not "missing"."""
    return is_specific(text) and not _NOT_A_CORRECTION.match(text)


def is_technique(text: str) -> bool:
    """Tell whether a text names a tool or a technique: no article, at most six words."""
    return len(text.split()) <= 6 and is_generic(text) and _NOT_A_TECHNIQUE.match(text) is None


def is_forbiddable(text: str) -> bool:
    """Tell whether a verb and its object can be forbidden for good: the object is a kind of thing, no certain file."""
    verb, _, rest = text.partition(" ")
    forbidden = _UNLESS.sub("", rest)
    is_used_name = verb.lower() == "use" and _USED_NAME.match(forbidden) is not None
    return bool(verb) and is_technique(forbidden) and (is_used_name or not _AT_HAND.search(forbidden))


def is_practice(text: str) -> bool:
    """Tell whether a text is what people use: not "the same", not "the first one"; "the" only before a name."""
    return (
        len(text.split()) <= 10
        and not is_deictic(text)
        and not is_transient(text)
        and _NOT_A_PRACTICE.match(text) is None
    )


def is_generic_practice(text: str) -> bool:
    """Tell whether a text is what people use, and names nothing at hand."""
    return is_practice(text) and is_generic(text)


def is_tool(text: str) -> bool:
    """Tell whether a text is what somebody uses for their work: no means of payment."""
    return is_practice(text) and not _PAYMENT.search(text)


def is_no_date(text: str) -> bool:
    """Tell whether a text does not begin with a month or a day of the week."""
    return _CALENDAR.match(text) is None


def is_choice(text: str) -> bool:
    """Tell whether a text can have been decided on: no option's number, nothing that only this conversation knows."""
    return len(text) >= 3 and not is_deictic(text) and not is_transient(text) and _NOT_A_CHOICE.match(text) is None


def is_generic_choice(text: str) -> bool:
    """Tell whether a text can have been decided on, and names nothing at hand."""
    return is_generic(text) and is_choice(text)


def is_chosen_technique(text: str) -> bool:
    """Tell whether a text names a tool or technique that can have been decided on."""
    return is_technique(text) and is_choice(text)


def is_team_decision(text: str) -> bool:
    """Tell whether a text can be what a team decided: a clause that lasts, or a choice."""
    is_certain = re.search(r"\b(?:my|your|his|her|their)\b", text, re.IGNORECASE) is not None
    if is_certain or is_deictic(text) or is_transient(text):
        return False
    return is_choice(text) if re.search(r"\bthe\b", text, re.IGNORECASE) else is_lasting_clause(text) or is_choice(text)
