"""Recognises norms: texts that say how things have to be, what is to be used, or what somebody decided or prefers.

A norm is known by its mood, whatever it is about: a thing "to use", what is "preferred" or "recommended", what replaces
what. Names of predicates count as words, too ("linter_to_use").
"""

from __future__ import annotations

import re

from consolidator.memory.facts.orders import fold_for_rules
from consolidator.memory.facts.people import is_thing_word
from consolidator.memory.facts.verbs import is_base_form

_NORM = re.compile(
    r"\b(?:must|should|shall|ought)\b"
    r"|\b(?:prefer\w*|cannot|may not|may only|ha(?:s|ve) to|needs? to|(?:is|are|supposed|expected) to)\b"
    r"|\b(?:go(?:es)? to|instead|in lieu of|rather than|in favou?r of|superse\w+|only ever|had better|better off)\b"
    r"|\b(?:polic(?:y|ies)|conventions?|guidelines?|rules?|practices?|standing)\b"
    r"|\b(?:mandat\w+|compulsory|obligatory|required)\b"
    r"|\b(?:decid\w+|decision\w*|agree[ds]?|agreement|approv\w+|authori[sz]\w+|permi(?:t|ts|tted|ssion)|allow\w*)\b"
    r"|\b(?:forbid\w*|forbade|prohibit\w*|ban(?:s|ned)?|disallow\w*|recommend\w*|encourag\w+|favou?rite|trusted)\b"
    r"|\b(?:advis(?:e|es|ed|able)|advice|suggest\w*|designated|endorse\w*|sanctioned|blessed|official|canonical)\b"
    r"|\b(?:of choice|way to|time to|best to|wise to|good idea|important to|worth \w+ing|stick (?:to|with)|opt for)\b"
    r"|\b(?:wanna|gotta|gonna)\b|^let (?!me\b)\w+|[:;.!?] let (?!me\b)\w+"
    r"|\b(?:as of|starting|effective|beginning) (?:today|now|tomorrow|immediately|this|next|\w+day)\b"
    r"|\b(?:switch|migrat)(?:e|ed|ing)? (?:over )?to\b"
    r"|\b(?:replace[ds]?|replacing|swap(?:ped)?) (?:\S+ ){0,3}?(?:by|with|for)\b"
    r"|\b(?:to (?:use|install|choose|pick|follow|apply|adopt|employ|rely on|go with)|consider \w+ing)\b"
    r"|\b(?:without (?:asking|confirm\w+|approval|review|permission)|skip\w*|no need to|whitelist\w*)\b"
    r"|\b(?:optional|necessary|unnecessary|needless|acceptable|welcome|safe to|fine to|ok to|okay to|free to)\b"
    r"|(?:^|[:;.!?*>-] ?)(?:choose|pick|adopt|opt|favou?r|avoid|stick|switch|replace|rely|employ|try|consider) \w"
    r"|\b(?:every|all|any)(?: new| other| our)? (?:repos?|repositor\w+|projects?|services?|codebases?)\b"
    r"|\b(?:new default|now the|of the year|most popular|modern|sensible)\b"
    r"|\bonly\b.{0,40}\b(?:is|are) (?:supported|accepted|valid|used)\b"
    r"|\bdefault choice\b|\bthe only \w+ (?:that|which|for|is)\b"
    r"|\b(?:durfen|darf|bevorzug\w*|verboten|vorgeschrieben|interdit\w*|obligatoire|prefier\w+|prohibid\w+)\b"
    r"|\b(?:empfohlen\w*|empfehl\w+|zu (?:verwenden|nutzen|benutzen|installieren)|an ?statt|statt)\b"
    r"|\b(?:recomendad\w+|recommande\w*|conseille\w*|consigliat\w+|aanbevolen|a (?:utiliser|usar)|da usare)\b"
    r"|\bпредпочита\w+|偏好|推荐|推薦|推奨"
)
# Praise of a thing says that it is the one to take; of a word for things alone, as "correct" is also said of results.
_PRAISED = re.compile(
    r"\b(?:right|correct|proper|best|ideal|optimal|appropriate|better|desired|standard(?! library)|safest)"
    r" (\w+)(?: (\w+))?"
)
_FOR_A_PURPOSE = re.compile(r"\b(\w+) to (\w+)((?: \w+)? ?(?:is|are|[:=])(?!\w))?")  # "the branch to merge into"
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def is_norm(text: str) -> bool:
    """Tell whether a text says how things have to be, what is preferred or was decided, instead of how things are."""
    return any(map(_states_norm, {text, _CAMEL.sub(" ", text).replace("_", " ").replace("-", " ")}))


def _states_norm(text: str) -> bool:
    folded = " ".join(fold_for_rules(text).split())
    return (
        _NORM.search(folded) is not None
        or any(is_thing_word(word or "") for match in _PRAISED.finditer(folded) for word in match.groups())
        or any(
            is_thing_word(match[1]) and (match[3] or is_base_form(match[2]))
            for match in _FOR_A_PURPOSE.finditer(folded)
        )
    )
