"""Judges the wording of an English text: is it a question, hypothetical, of the moment, or does it point at something?

Small vocabularies and checks that the rules share; nothing here knows what a fact is.
"""

from __future__ import annotations

import re


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as a text."""
    return frozenset(text.split())


FROM_NOW = r"(?:from now on|from here on(?: out)?|going forward|henceforth)"
# A thing of then: a pull request, ticket, commit or branch, of which another session knows nothing.
_OF_THEN = re.compile(
    r"\b(?:PR|pull request|merge request|MR|issue|ticket|commit|phase|step|task) ?#?\d+\b|(?<!\w)#\d+\b|"
    r"(?-i:\b(?!(?:UTF|SHA|ISO|AES|GPT|HTTP|RFC|PEP|ES|IPV)-)[A-Z]{2,9}-\d+\b)|"
    r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,40}\b|\b(?:this|that|the current) (?:branch|pr|pull request|commit|ticket|"
    r"issue|session|task|change|diff|release|sprint)\b",
    re.IGNORECASE,
)
_TRANSIENT = re.compile(
    r"\b(?:right now|at the moment|for now|this time|today|tonight|tomorrow|yesterday|temporar\w+|just this once|"
    r"for the moment|as of now|currently|at this point|this (?:week|month|morning|evening)|in the meantime|not yet|yet|"
    r"anymore|already|(?<!from )now)\b",
    re.IGNORECASE,
)
_OF_TEAM = re.compile(r"(?:we|our|the|i)\b", re.IGNORECASE)
_SINCE_NOW = re.compile(
    r"(?:(?<=\bwe)|(?<=\bis)|(?<=\bare)|(?<=\bi)) now\b|"
    r"(?<=\w)(?<!\bas of)(?<!\bright)(?<!\bfor)(?<!\bby)(?<!\buntil)(?<!\bjust) now(?=[,.;!]|$)",
    re.IGNORECASE,
)
# Ends what has lost the words after it.
_STUMP = re.compile(
    r"(?:^|\s)(?:the|an?|my|your|our|and|or|but|nor|as|than|via|per|of|from|with|into|onto|at|by|for|to|in|if|that|"
    r"which|because|when|while|until|is|are|was|were|be)$",
    re.IGNORECASE,
)
_QUESTION_WORD = re.compile(
    r"(?:what|why|how|who|where|when|which|should|could|would|can|is|are|"
    r"do(?! (?:not|it|this|that)\b)|does|did|was|were|will|shall|isn't|aren't|doesn't|don't (?:we|you|i|they)|am)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(  # whoever answers, tells: an order of the moment
    r"(?:(?:tell|show|remind|teach) (?:me|us)|explain|describe|clarify) (?:to (?:me|us) )?"
    r"(?:how|what|why|who|where|which|whether)\b",
    re.IGNORECASE,
)
_HYPOTHESIS = re.compile(
    r"(?:if(?! [^,]{3,80}, (?:then )?(?:please )?(?:always|never)\b)|suppose|imagine|assume|assuming|let's say|say|"
    r"what if|maybe|perhaps|possibly|in case|unless|for (?:example|instance)|e\.g|"
    r"i (?:think|guess|suppose|feel like|wonder|assume|wish)|it (?:seems|looks)|apparently|hypothetically|as if)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:if|whether|when|unless|suppose|(?:not|pretty|fairly|quite|almost) sure|think|believe|guess|maybe|perhaps|"
    r"as though|as if|not that|wish|said|says|told|asked?)\b[^,;:.]*$",
    re.IGNORECASE,
)
_POLITE_REQUEST = re.compile(
    r"(?:can|could|would|will) you (?:please )?(?:also )?(?=always\b|never\b|remember\b|from now on\b|keep in mind\b|"
    r"call me\b)",
    re.IGNORECASE,
)
# Words that lead into a sentence; those of the second group only before a comma or the like ("no need to ask").
_LEAD_IN = re.compile(
    r"(?:(?:(?:ok(?:ay)?|so|and|also|but|btw|by the way|well|oh|hey|hi|hello|hmm+|alright|all right|thanks|thank you|"
    r"please|pls|fyi|just|actually|sorry|finally|additionally|plus|then|of course|certainly|one (?:more|last) thing|"
    r"as i said|(?:just )?so you know|in general|generally|(?:in|for) (?:this|our) (?:repo|project|codebase|"
    r"repository))[\s,:;.!–—-]+"
    r"|(?:no|nope|yes|yeah|yep|i was wrong|that was wrong|my mistake|update|correction|sure|right|great|perfect|note|"
    r"important|reminder|rule|look|listen|again|first|there|"
    r"wait|cool|nice|good)(?: there| thing| one)?\s?[,:;.!–—-]+\s*)){1,5}",
    re.IGNORECASE,
)
# Words at a sentence's end that only ask to keep it.
_MEMO = re.compile(
    r"(?<=\w)[\s,;:.–—-]+(?:and |please )*(?:(?:save|store|keep|put|note|write) (?:this |that |it )?(?:in|to|into) "
    r"(?:your |the )?memory|(?:remember|memori[sz]e)(?: this| that| it)?|keep (?:this|that|it) in mind),?(?: please)?"
    r"[.! ]*$",
    re.IGNORECASE,
)
# "dont", as people type it.
_NO_APOSTROPHE = re.compile(
    r"\b(do|does|did|is|are|was|were|should|must|could|would|have|has|ca)nt\b(?! garde)", re.IGNORECASE
)
# A name, as one calls somebody, before what is said to them.
_GREETED_OR_TAGGED = re.compile(
    r"(?:(?:hey|hi|hello|ok|okay|yo|dear)\s+(?!(?:i|we|my|our|you|if|when|please|so|but|and|there|maybe|perhaps|"
    r"unless)\b)[^\W\d][\w'-]*\s*[,:!]\s*|@[\w.-]+\w[\s,:]+"
    r"|(?-i:(?!(?:Error|Warning|Summary|Result|Output|Status|Update|Question|Answer|Problem|Context|Background|"
    r"Example|Todo|"
    r"Edit|Plan|Goal|Title|Description|Before|After|Then|Expected|Actual|Info|Debug|Log)\b)[A-ZÀ-Þ][a-zà-ÿ'-]+:\s+))"
    r"(?=(?:i|we|my|our|please|always|never|don't|do not|you|remember|from now on|use|no|stop|only|let's)\b)",
    re.IGNORECASE,
)
_VOCATIVE = re.compile(
    r"(?:(?!(?:If|When|Once|Until|Unless|Maybe|Perhaps|Suppose|Say|Imagine|Assume|Sometimes|Yesterday|Today|Tomorrow|"
    r"However|Previously|Originally|Before|Later|Initially|Then)\b)[A-ZÀ-Þ][\w'-]+|(?i:guys|folks|team|everyone|buddy|"
    r"bro|mate|man|dude)),\s+(?=(?i:i|we|my|our|please|always|never|don't|do not|you|remember|from now on|use|no|stop|"
    r"only|let's)\b)"
)
_DEICTIC_WORDS = word_set(
    """
    this that these those it its it's that's them they he she him her here there your yours one ones such something
    anything nothing everything what which who how why where same other others another else
    """
)
# What may follow "the" or "our" without pointing at one thing among several.
_UNIQUE_THING = (
    r"(?:main|master|develop|production|prod|staging|default|public|existing|whole|entire|full)\b.*|"
    r"code(?:base)?|repo(?:sitory)?|database|tests?|test suite|project|changelog|docs|documentation|readme|user|"
    r"terminal|cli|command line|standard library|style guide|linter|formatter|imperative|active voice|present tense|"
    r"metric system|window|aisle|day|morning|evening|night|week|weekend|year|ocean|sea|mountains|outdoors|piano|guitar|"
    r"violin|drums|gym"
)
_DEFINITE = re.compile(rf"\b(?:the|my|your|our|his|her|their) (?!(?:{_UNIQUE_THING})\b)\S", re.IGNORECASE)
_CLAUSE_END = re.compile(
    r"\s*(?:;| [-–—] |\.\s|,\s*(?:but|and (?:i|we|you|please|can|could|then|also|the|my)|so|because|since|which|"
    r"although|though|if|please|thanks|thank you|can|could|let me|ok|i|we|you|he|she|they|it['’]s|that['’]s)\b|"
    r"\s(?:but|because|although|though|btw|please|thanks|thank you)\b)",
    re.IGNORECASE,
)
_PAST_TENSE = re.compile(
    r"(?:\w+ed|been|had|was|were|did|said|got|made|saw|seen|knew|known|told|gave|given|went|gone|took|taken|bought|"
    r"thought|heard|felt|met|came|found|left|lost|kept|ran|wrote|written|done|understood|became|began|forgot|failed)\b",
    re.IGNORECASE,
)


def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks, other than politely for something to be kept in mind."""
    bare = _without_lead_in(sentence)
    if _POLITE_REQUEST.match(bare):
        return False
    asks = sentence.rstrip("\"') ").endswith("?") or _ASKS.match(bare) is not None
    return asks or (_QUESTION_WORD.match(bare) is not None and not sentence.endswith((".", "!")))


def is_hypothetical(sentence: str) -> bool:
    """Tell whether a sentence only considers something."""
    return _HYPOTHESIS.match(strip_lead_in(sentence)) is not None


def mend_contractions(text: str) -> str:
    """Return a text in which "dont", "shouldnt" and the like have their apostrophe."""
    return _NO_APOSTROPHE.sub(r"\1n't", text)


def strip_memo(text: str) -> str:
    """Return a sentence without the words at its end by which it is to be remembered."""
    return _MEMO.sub("", text)


def mend_now(text: str) -> str:
    """Return a statement about a team or its things without "now", where that says since when it is so."""
    return _SINCE_NOW.sub("", text) if _OF_TEAM.match(text) else text


def strip_hypothesis(text: str) -> str:
    """Return a text without the words at its beginning that only consider what follows ("I think")."""
    hypothesis = _HYPOTHESIS.match(text)
    return text[hypothesis.end() :].lstrip(" ,:") if hypothesis else text


def is_transient(text: str) -> bool:
    """Tell whether a text is about the moment it was said in, or about a thing of then."""
    is_of_moment = _TRANSIENT.search(re.sub(r"(?i)from now on", "", text)) is not None
    return is_of_moment or _OF_THEN.search(text) is not None


def is_stump(text: str) -> bool:
    """Tell whether a text ends in a word that another one has to follow, as where words were left out at its end."""
    return _STUMP.search(text) is not None


def ends_in_doubt(text: str) -> bool:
    """Tell whether the words before a statement take it back ("if", "whether", "pretty sure")."""
    return _DOUBT.search(text) is not None


def strip_lead_in(sentence: str) -> str:
    """Return a sentence without the words that only lead into it ("ok so also, please ...")."""
    bare = _without_lead_in(sentence)
    request = _POLITE_REQUEST.match(bare)
    return bare[request.end() :].rstrip("?") if request else bare


def _without_lead_in(sentence: str) -> str:
    for words in (_GREETED_OR_TAGGED, _LEAD_IN, _VOCATIVE, _GREETED_OR_TAGGED, _LEAD_IN):
        match = words.match(sentence)
        sentence = sentence[match.end() :] if match else sentence
    return sentence


def first_clause(text: str) -> str:
    """Return the first clause of a text, without the punctuation at its ends."""
    end = _CLAUSE_END.search(text)
    return strip_punctuation(text[: end.start()] if end else text)


def strip_punctuation(text: str) -> str:
    """Return a text without white space and punctuation at its ends."""
    return text.strip(" \t\n,.;:!?–—").strip()


def is_deictic(text: str, *, within: int = 0) -> bool:
    """Tell whether a text points at something that only those present see ("this", "it"); `within`: its first words."""
    words = re.findall(r"[A-Za-z']+", text.lower().replace("’", "'"))
    return any(word in _DEICTIC_WORDS for word in (words[:within] if within else words))


def is_generic(text: str) -> bool:
    """Tell whether a text is about a kind of thing, and not about a certain one at hand."""
    return bool(text) and not is_deictic(text) and _DEFINITE.search(text) is None and not is_transient(text)


def is_past_tense(text: str) -> bool:
    """Tell whether a clause without its subject is in the past tense ("never had a problem")."""
    return _PAST_TENSE.match(text) is not None


def is_inside_quotes(sentence: str, position: int) -> bool:
    """Tell whether a position in a sentence is between quotation marks."""
    before = sentence[:position]
    return before.count('"') % 2 == 1 or before.count("“") > before.count("”")


# Words of a language that no other has: of a sentence, two of them are enough.
_FOREIGN_WORDS = word_set(
    """
    nicht und ist das der die den dem ein eine einen wir ich bitte immer für auf auch keine mit oder wird sind
    le les une des est pas nous je pour dans avec toujours jamais sont vous être cette qui que et du sur au
    el los las una es nunca siempre para con por usa este esta del como pero porque está son y
    il lo gli di che non per sempre della sono è e nel come mai
    os um uma não nunca você mais isso são na em
    het een niet wij ik altijd nooit voor op van met dat zijn
    """
)


def is_foreign(text: str) -> bool:
    """Tell whether a text is in a language that the rules, which are English, cannot read."""
    letters = [char for char in text if char.isalpha()]
    others = sum(char > "\u024f" for char in letters)
    words = re.findall(r"[^\W\d_]+", text.casefold())
    foreign = {word for word in words if word in _FOREIGN_WORDS}
    english = {word for word in words if word in _ENGLISH_WORDS}
    return 3 * others > len(letters) > 0 or (len(foreign) > 1 and len(foreign) > len(english))


_ENGLISH_WORDS = word_set("the a an is are and of to in for on with it this that we i you not be please use as at do")
