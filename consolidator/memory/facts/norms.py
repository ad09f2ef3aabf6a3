"""Recognises norms: texts that say how things have to be, what is to be used, or what somebody decided or prefers.

A norm is known by its mood, whatever it is about: a thing "to use", what is "preferred" or "recommended", what replaces
what. Names of predicates count as words, too ("linter_to_use").
"""

from __future__ import annotations

import re

from consolidator.memory.facts.orders import fold_for_rules
from consolidator.memory.facts.verbs import is_base_form
from consolidator.memory.text.phrasing import word_set

_THINGS = word_set(
    """
    server servers host hosts hostname machine machines computer cluster clusters node nodes pod pods container
    containers image images database databases db schema table tables column columns index indexes view migration
    migrations queue queues cache bucket disk disks volume volumes partition filesystem storage file files directory
    folder path repository repo branch branches commit project codebase monorepo code source package packages module
    modules library libraries framework dependency dependencies compiler interpreter runtime tool tools toolchain cli
    command script scripts build builds pipeline pipelines ci workflow job jobs test tests suite linter formatter
    typechecker api apis endpoint endpoints route service services daemon process application app website site webpage
    page url uri domain dns proxy gateway firewall network subnet interface port ports socket protocol certificate tls
    ssl backup backups log logs os system kernel distribution distro cpu cpus gpu gpus core cores memory ram device
    board sensor driver drivers firmware bios version release model dataset environment staging production prod
    development sandbox platform cloud region zone instance vm license licence format encoding charset locale timezone
    limit limits quota timeout rate latency throughput size retention flight route catalog catalogue warehouse
    inventory documentation docs readme changelog manifest config configuration setting settings flag variable parameter
    option header payload request response webhook topic stream shard replica primary standby cronjob crontab scheduler
    worker workers registry mirror plugin extension editor ide terminal shell browser engine sdk orm parser lexer
    language grammar syntax class function method type struct enum constant exporter dashboard metric metrics alert
    remote remotes origin upstream channel monitor board printer camera router switch robot vehicle building
    """
)
_NORM = re.compile(
    r"\b(?:must|should|shall|ought)\b"
    r"|\b(?:prefer\w*|cannot|may not|may only|ha(?:s|ve) to|needs? to|(?:is|are|supposed|expected) to)\b"
    r"|\b(?:go(?:es)? to|instead|in lieu of|rather than|in favou?r of|superse\w+|only ever|had better|better off)\b"
    r"|\b(?:polic(?:y|ies)|standing)\b|(?<!for )\b(?:conventions?|guidelines?|rules?|practices?)\b(?! and)"
    r"|\b(?:mandat\w+|compulsory|obligatory|required)\b"
    r"|\b(?:decid\w+|decision\w*|agree[ds]?|agreement|approv\w+|authori[sz]\w+|permi(?:t|ts|tted|ssion)|allow\w*)\b"
    r"|\b(?:forbid\w*|forbade|prohibit\w*|ban(?:s|ned)?|disallow\w*|recommend\w*|encourag\w+|favou?rite|trusted)\b"
    r"|\b(?:advis(?:e|es|ed|able)|advice|suggest\w*|designated|endorse\w*|sanctioned|blessed|official)\b"
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
        or any((word or "") in _THINGS for match in _PRAISED.finditer(folded) for word in match.groups())
        or any(
            match[1] in _THINGS and (match[3] or is_base_form(match[2])) for match in _FOR_A_PURPOSE.finditer(folded)
        )
    )
