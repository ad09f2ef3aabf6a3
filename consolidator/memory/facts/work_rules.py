"""The forms in which people state how work is to be done, with what, and what was decided; a table, read by `rules`."""

from __future__ import annotations

import re

from consolidator.memory.facts.rule_pattern import rule
from consolidator.memory.facts.value_checks import choice, clause_with_verb, imperative, lasts, practice, thing, token
from consolidator.memory.text.phrasing import is_general, is_transient

_FROM_NOW = r"(?:from now on|from here on(?: out)?|going forward|henceforth)"
_AFTER_ALL = (
    r"(?:always|never|don't|do not|use|only|(?!(?:i|we|you|it|the|this|could|might|may|will|would|is|are|was)\b)\w+) .+"
)
_SHOULD = r"(?:should|must|need to|have to|shall|are to)"
_ENSURE = r"(?:make sure to|make sure you|make sure that you|be sure to|it's important to)"
_FORBIDDEN = (
    r"use|write|create|commit|push|run|touch|edit|modify|delete|install|start|mock|generate|put|ask|assume|guess|add|"
    r"apologi[sz]e|explain|summari[sz]e|send|format|rename|amend|force|merge|open|deploy|log|comment|hardcode|"
    r"hard-code|"
    r"swallow|call|leave"
)
_PROJECT = (
    r"(?:project|repo|repository|codebase|app|application|package|service|backend|frontend|api|site|team|product|"
    r"library)"
)
_OURS = (
    r"(?:tech )?stack|package manager|database|ci|build (?:tool|system)|backend|frontend|default branch|main branch|"
    r"test (?:framework|runner)|style guide|formatter|linter|deploy(?:ment)? target|issue tracker|code style|"
    r"staging (?:url|server|environment)|naming convention|line length|orm|queue|cloud provider"
)
_SYSTEM = (
    r"(?:macOS|Mac|Windows|Linux|Ubuntu|Debian|Fedora|Arch|NixOS|WSL2?|Alpine)\b"
    r"(?: (?:\d[\w.]*|Linux|Server|Sonoma|Sequoia|Ventura|Tahoe))*"
)
_CALENDAR = (
    r"January|February|March|April|May|June|July|August|September|October|November|December|Mon|Tues|Wednes|Thurs|Fri|"
    r"Satur|Sun|I$"
)
_OFTEN = r"(?:(?:all|mostly|only|also|always|generally|usually|exclusively) )?"
_DENIAL = r"(?:no|nope|wrong|actually|correction|not quite|that's wrong|that's not right|incorrect)[,.:;! –-]+"
_UNLESS = re.compile(
    r",? unless (?:i|we|you are|you're|it's|explicitly|asked|told|absolutely|really|necessary)\b.*", re.IGNORECASE
)
_COMPLAINT = re.compile(
    r".*?, (?:it|this|that|there|they|he|she|i|we|the|my|our|nothing|something|everything)\b", re.IGNORECASE
)
_WAITING = r"you(?:'re| are) (?:ready|done|free)|you (?:can|have time|get|find|want|like)\b"


def _forbidden(value: str) -> bool:
    verb, _, what = value.partition(" ")
    what = _UNLESS.sub("", what)
    return bool(verb) and thing(what) and not re.search(r"[/@#]|\b\w+\.\w{2,4}\b|\bunless\b", what)


def _whenever(value: str) -> bool:
    return not (re.search(_WAITING, value, re.IGNORECASE) or _COMPLAINT.match(value) or is_transient(value))


def _corrected(value: str) -> bool:
    return token(value) and not re.match(
        r"(?:not|wrong|still|failing|broken|missing|the|in the|too|also)\b", value, re.IGNORECASE
    )


INSTRUCTIONS = (
    rule(
        r"(?:to )?(?:remember|keep in mind|bear in mind|don't forget|do not forget|for (?:your )?future reference|"
        r"memori[sz]e|make a note)(?: that|:|,| -)\s*(?P<value>.+)",
        "remember",
        "{who} asked to remember: {value}.",
        "project",
        about="work",
        check=clause_with_verb,
        whole=True,
    ),
    rule(
        r"(?:remember|keep in mind|don't forget) (?P<value>(?:i|we|our|my|you|all|every|never|always)\b .+)",
        "remember",
        "{who} asked to remember: {value}.",
        "project",
        about="work",
        check=clause_with_verb,
        whole=True,
    ),
    rule(
        r"(?:remember|don't forget|do not forget) to (?P<value>(?:always|never) .+|"
        r".+? (?:before|after|when|whenever|every|each) .+)",
        "rule",
        "{who} asked: {value}.",
        "constraint",
        about="work",
        check=lambda value: is_general(value) and lasts(value),
        whole=True,
    ),
    rule(
        rf"(?:{_FROM_NOW}|in (?:the )?future(?=,? (?:please|always|never|do|don't|use)\b))[,:]? "
        rf"(?:(?:please|i want you to|i'd like you to|you should|you must|let's|we) )?(?P<value>{_AFTER_ALL})",
        "rule",
        "from then on, {who} wants: {value}.",
        "constraint",
        about="work",
        check=lasts,
        whole=True,
    ),
    rule(
        rf"(?!(?:i|it|this|that|there)\b)(?P<value>[a-z]\w+ .+?),? {_FROM_NOW}[.!]?$",
        "rule",
        "from then on, {who} wants: {value}.",
        "constraint",
        about="work",
        check=lasts,
        whole=True,
    ),
    rule(
        r"(?P<value>(?:every time|each time|whenever) (?:you|we|there) .+?, .+)",
        "rule",
        "{who} wants: {value}.",
        "constraint",
        about="work",
        check=_whenever,
        whole=True,
    ),
    rule(
        rf"(?:(?:(?:you|we|agents?) {_SHOULD}|we|{_ENSURE}) )?(?P<value>(?:always|never|don't ever|do not ever|"
        rf"never ever) .+)",
        "rule",
        "{who} wants: {value}.",
        "constraint",
        about="work",
        check=lambda value: imperative(
            re.sub(r"^(?:always|never ever|never|don't ever|do not ever) ", "", value, flags=re.I)
        ),
        whole=True,
    ),
    rule(
        r"(?P<value>if [^,]{3,80}, (?:then )?(?:please )?(?:always|never) .+)",
        "rule",
        "{who} wants: {value}.",
        "constraint",
        about="work",
        check=lambda value: not is_transient(value),
        whole=True,
    ),
    rule(
        rf"(?:you (?:should not|shouldn't|must not|mustn't)|don't|do not) (?P<value>(?:{_FORBIDDEN}) .+)",
        "rule against",
        "{who} does not want the agent to {value}.",
        "constraint",
        about="work",
        check=_forbidden,
        work_only=True,
    ),
    rule(
        r"(?:we should )?(?P<what>use|prefer) (?P<value>[^,;]{2,60}?)"
        r"(?:,? not |,? instead of |,? rather than |,? over )(?P<other>[^,;.]{2,60})[.!]?$",
        "instead of {other}",
        "{who} wants to {what} {value} instead of {other}.",
        "constraint",
        about="work",
        single=True,
        check=thing,
        work_only=True,
    ),
)

SURROUNDINGS = (
    rule(
        r"(?:here )?we (?:do not|don't|don’t|never) use (?P<value>.+)",
        "does not use",
        "they do not use {value}.",
        "environment",
        about="work",
        check=lambda value: practice(value) and is_general(value),
    ),
    rule(
        rf"(?:here )?we {_OFTEN}use (?P<value>[^,;]{{2,80}}?) (?:for|as) (?P<what>[^,;.]{{2,60}})[.!]?$",
        "uses for {what}",
        "they use {value} for {what}.",
        "environment",
        about="work",
        single=True,
        check=practice,
    ),
    rule(
        rf"(?:here )?we {_OFTEN}use (?P<value>.+)",
        "uses",
        "they use {value}.",
        "environment",
        about="work",
        check=practice,
    ),
    rule(
        rf"(?:I'm|I’m|I am|i'm|i am|[Ww]e're|[Ww]e are) (?:on|using|running) (?P<value>{_SYSTEM})",
        "operating system",
        "{who} works on {value}.",
        "environment",
        single=True,
        check=lambda value: len(value.split()) <= 4,
        cased=True,
    ),
    rule(
        r"[Ww]e(?:'re|’re| are) (?:on|using|running) (?P<value>[A-Z][\w.+#-]*(?: [\w.+#-]*\d[\w.]*)?|"
        r"[a-z]+ v?\d+(?:\.[\w.]+)*)(?=$|[,;.!]| and | for | in )",
        "runs on",
        "they are on {value}.",
        "environment",
        about="work",
        check=lambda value: re.match(_CALENDAR, value) is None,
        work_only=True,
        cased=True,
    ),
    rule(
        rf"(?:this|the|our|my) {_PROJECT} (?P<what>uses|is written in|runs on|requires|is built with|targets|"
        r"is deployed (?:on|to|with)|is hosted on|depends on) (?P<value>.+)",
        "{what}",
        "the project {what} {value}.",
        "environment",
        about="work",
        check=practice,
        work_only=True,
    ),
    rule(
        rf"our (?P<what>{_OURS}) (?:is|are) (?P<value>.+)",
        "{what}",
        "their {what} is {value}.",
        "environment",
        about="work",
        single=True,
        check=practice,
    ),
    rule(
        r"we (?P<what>deploy (?:on|to|with)|host (?:on|with)|run on|build with|test with|ship (?:on|"
        r"with)) (?P<value>.+)",
        "{what}",
        "they {what} {value}.",
        "environment",
        about="work",
        check=token,
    ),
)

DECISIONS = (
    rule(
        r"we(?:'ve| have|’ve)? (?:decided|agreed|settled|opted|chose|chosen)(?: to go)? (?:on|to|for|with|that|"
        r"against) "
        r"(?P<value>.+)",
        "decided",
        "they decided: {value}.",
        "decision",
        about="work",
        check=lambda value: is_general(value) and (lasts(value) or choice(value)),
    ),
    rule(
        r"i(?:'ve| have|’ve)? decided (?:to|that|on|against) (?P<value>.+)",
        "decided",
        "{who} decided: {value}.",
        "decision",
        about="work",
        check=lambda value: is_general(value) and choice(value),
        work_only=True,
    ),
    rule(
        r"let(?:'s|’s|s| us) (?:go|stick|stay) with (?P<value>.+)",
        "decided",
        "they decided to go with {value}.",
        "decision",
        about="work",
        check=lambda value: thing(value) and choice(value),
        work_only=True,
    ),
    rule(
        r"let(?:'s|’s|s| us) (?:just )?use (?P<value>.+)",
        "decided",
        "they decided to use {value}.",
        "decision",
        about="work",
        check=lambda value: thing(value) and choice(value),
        work_only=True,
    ),
    rule(
        r"the decision is (?:to |that )?(?P<value>.+)",
        "decided",
        "the decision is: {value}.",
        "decision",
        about="work",
        check=lasts,
    ),
)

CORRECTIONS = (
    rule(
        r"(?:(?:no|nope|actually)[,.:;! –-]+)?(?:it's|it’s|it is) (?:called|named|spelled|pronounced) "
        r"(?P<value>[^,;]{2,40}),? not (?P<other>[^,;.]{2,40})[.!]?$",
        "not {other}",
        "it is called {value}, not {other}.",
        "project",
        about="work",
        single=True,
        check=thing,
        replying=True,
    ),
    rule(
        rf"{_DENIAL}(?:actually,? )?(?:the|our|my) (?P<what>[\w -]{{2,40}}?) (?:is|are) "
        r"(?:actually |really |called |named |now )?(?P<value>.+)",
        "{what}",
        "the {what} is {value}.",
        "project",
        about="work",
        single=True,
        check=_corrected,
        work_only=True,
        replying=True,
    ),
    rule(
        r"(?:(?:no|nope|actually)[,.:;! –-]+)?(?:it's|it’s|it is|that's|that is|they're) (?:called |named |spelled )?"
        r"(?P<value>[^,;]{2,40}), not (?P<other>[^,;.]{2,40})[.!]?$",
        "not {other}",
        "it is {value}, not {other}.",
        "project",
        about="work",
        check=token,
        work_only=True,
        replying=True,
    ),
)
