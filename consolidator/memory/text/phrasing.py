"""Judges the wording of a statement: whether it lasts, points at something only those present can see, or is asked.

Small vocabularies and checks that the rules share; nothing here knows what a fact is.
"""

from __future__ import annotations

import re


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list written as text."""
    return frozenset(text.split())


_TRANSIENT = re.compile(
    r"\b(?:right now|at the moment|for now|this time|today|tonight|tomorrow|yesterday|temporar\w+|just this once|"
    r"for the moment|"
    r"as of now|currently|at this point|this (?:week|month|morning|evening)|in the meantime|not yet|yet|anymore|"
    r"already|"
    r"(?<!from )now)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"(?:what|why|how|who|where|when|which|should|could|would|can|is|are|do(?! not)|does|did|was|were|will|shall|isn't|"
    r"aren't|doesn't|"
    r"don't (?:we|you|i|they)|am)\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"(?:if(?! [^,]{3,80}, (?:then )?(?:please )?(?:always|never)\b)|suppose|imagine|assume|assuming|let's say|say|"
    r"what if|maybe|perhaps|possibly|in case|unless|for (?:example|instance)|"
    r"e\.g|i (?:think|guess|suppose|feel like|wonder|assume|wish)|it (?:seems|looks)|apparently|hypothetically|"
    r"as if)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"\b(?:if|whether|when|unless|suppose|(?:not|pretty|fairly|quite|almost) sure|think|believe|guess|maybe|perhaps|"
    r"as though|"
    r"as if|not that|wish|said|says|told|asked?)\b[^,;:.]*$",
    re.IGNORECASE,
)
_REQUESTED = re.compile(
    r"(?:can|could|would|will) you (?:please )?(?:also )?(?=always\b|never\b|remember\b|from now on\b|keep in mind\b|"
    r"call me\b)",
    re.IGNORECASE,
)
# Words that lead into a sentence; the second kind only where a comma or the like sets them off ("no need to ask").
_LEAD = re.compile(
    r"(?:(?:(?:ok(?:ay)?|so|and|also|but|btw|by the way|well|oh|hey|hi|hello|hmm+|alright|all right|thanks|thank you|"
    r"please|"
    r"pls|fyi|just|actually|sorry|finally|additionally|plus|then|of course|certainly|one (?:more|last) thing|as i said|"
    r"(?:just )?so you know|in general|generally|in this (?:repo|project|codebase|repository))[\s,:;.!–—-]+"
    r"|(?:no|nope|yes|yeah|yep|sure|right|great|perfect|note|important|reminder|rule|look|listen|again|first|there|"
    r"wait|cool|"
    r"nice|good)(?: there| thing| one)?\s?[,:;.!–—-]+\s*)){1,5}",
    re.IGNORECASE,
)
_POINTING = word_set(
    """
    this that these those it its it's that's them they he she him her here there your yours one ones such something
    anything nothing everything what which who how why where same
    other others another else
    """
)
_GENERIC = (
    r"(?:main|master|develop|production|prod|staging|default|public|existing|whole|entire|full)\b.*|"
    r"code(?:base)?|repo(?:sitory)?|database|tests?|test suite|project|changelog|docs|documentation|readme|user|"
    r"terminal|cli|"
    r"command line|style guide|linter|formatter|imperative|active voice|present tense|metric system|window|aisle"
)
_DEFINITE = re.compile(rf"\b(?:the|my|your|our|his|her|their) (?!(?:{_GENERIC})\b)\S", re.IGNORECASE)
_CLAUSE_END = re.compile(
    r"\s*(?:;| [-–—] |\.\s|,\s*(?:but|and (?:i|we|you|please|can|could|then|also|the|my)|so|because|since|which|"
    r"although|though|if|"
    r"please|thanks|thank you|can|could|let me|ok|i|we|you)\b|\s(?:but|because|although|though|btw|please|thanks|"
    r"thank you)\b)",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"(?:\w+ed|been|had|was|were|did|said|got|made|saw|seen|knew|known|told|gave|given|went|gone|took|taken|bought|"
    r"thought|heard|"
    r"felt|met|came|found|left|lost|kept|ran|wrote|written|done|understood|became|began|forgot|failed)\b",
    re.IGNORECASE,
)


def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks, other than politely for something to be kept in mind."""
    bare = _led(sentence)
    if _REQUESTED.match(bare):
        return False
    return sentence.rstrip("\"') ").endswith("?") or (bool(_ASKED.match(bare)) and not sentence.endswith((".", "!")))


def is_hypothetical(sentence: str) -> bool:
    """Tell whether a sentence only considers something."""
    return _SUPPOSED.match(strip_lead_in(sentence)) is not None


def is_transient(text: str) -> bool:
    """Tell whether a text is about the moment it was said in."""
    return _TRANSIENT.search(re.sub(r"(?i)from now on", "", text)) is not None


def ends_in_doubt(before: str) -> bool:
    """Tell whether the words before a statement take it back ("if", "whether", "pretty sure")."""
    return _DOUBTED.search(before) is not None


def strip_lead_in(sentence: str) -> str:
    """Return a sentence without the words that only lead into it ("ok so also, please ...")."""
    bare = _led(sentence)
    asked = _REQUESTED.match(bare)
    return bare[asked.end() :].rstrip("?") if asked else bare


def _led(sentence: str) -> str:
    lead = _LEAD.match(sentence)
    return sentence[lead.end() :] if lead else sentence


def first_clause(text: str) -> str:
    """Return the first clause of a text, without the punctuation at its ends."""
    end = _CLAUSE_END.search(text)
    return strip_punctuation(text[: end.start()] if end else text)


def strip_punctuation(text: str) -> str:
    """Return a text without white space and stops around it."""
    return text.strip(" \t\n,.;:!?–—").strip()


def is_deictic(text: str, *, within: int = 0) -> bool:
    """Tell whether a text points at something only those present could see; `within` looks at its first words alone."""
    said = re.findall(r"[A-Za-z']+", text.lower().replace("’", "'"))
    return any(word in _POINTING for word in (said[:within] if within else said))


def is_generic(text: str) -> bool:
    """Tell whether a text speaks of a kind of thing and not of a certain one at hand."""
    return bool(text) and not is_deictic(text) and _DEFINITE.search(text) is None and not is_transient(text)


def is_past_tense(text: str) -> bool:
    """Tell whether a clause without its subject tells of the past ("never had a problem")."""
    return _PAST.match(text) is not None


def is_inside_quotes(sentence: str, position: int) -> bool:
    """Tell whether a place in a sentence lies between quotation marks."""
    before = sentence[:position]
    return before.count('"') % 2 == 1 or before.count("“") > before.count("”")


def to_third_person(text: str) -> str:
    """Return a statement with what its speaker calls "my" and "our" told of them by another."""
    for mine, theirs in _PERSONS:
        text = mine.sub(theirs, text)
    return _SPEAKER.sub(lambda found: found["named"] or "they", text)


# Told by its case: "US" and "ME" are places. Within "us-east-1" or "I/O" it is no person, nor where it numbers what is
# named before it ("World War I").
_PERSONS = tuple(
    (re.compile(rf"(?<![\w@/:.`-]){mine}(?![@/:.`-]?\w|`)"), theirs)
    for mine, theirs in (
        (r"(?:[Ii]['’]m|[Ii] am|[Ww]e['’]re|[Ww]e are)", "they are"),
        (r"(?:[Ii]['’]ve|[Ww]e['’]ve)", "they have"),
        (r"[Ww]e", "they"),
        (r"(?:[Mm]y|[Oo]ur)", "their"),
        (r"(?:me|us)", "them"),
        (r"(?:[Mm]ine|[Oo]urs)", "theirs"),
        (r"(?:[Mm]yself|[Oo]urselves)", "themselves"),
    )
)
_SPEAKER = re.compile(
    r"(?P<named>\b(?!(?:If|When|Whenever|That|What|Where|How|As|And|But|Because|Unless|Before|After|While)\b)"
    r"[A-ZÀ-Þ][\w-]* I\b)|(?<![\w@/:.`-])[Ii](?=['’ ][^\W\d_])"
)
