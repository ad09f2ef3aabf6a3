"""Recognises texts that tell somebody what to do: orders, norms, and attempts to command whoever reads a log.

Texts are compared folded: without case, accents, invisible characters and typographic variants. The lists hold the
common wordings of a dozen languages; they can never be complete, so nothing is believed for passing them alone.

A norm says how things have to be, what is to be used, or what somebody decided or prefers. It is known by its mood,
whatever it is about. Names of predicates count as words, too ("linter_to_use").
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from consolidator.memory.facts.quotes import fold_text
from consolidator.memory.facts.verbs import is_base_form
from consolidator.memory.text.phrasing import word_set

INSTRUCTION = "an instruction, not a fact"  # why something is rejected
_AN_AI = (
    r"(?:assistant|agent|ai|llm|language model|model|bot|chatbot|memory(?: system)?|summari[sz]er|extractor|reader)s?"
)
_RULES = r"(?:instructions?|rules?|prompts?|context|messages?|directions?|directives?|guidelines?|guardrails?|training)"
# Commands that take earlier instructions back, or that ask for what only whoever runs a model may see.
_OVERRIDE = re.compile(
    rf"\b(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget|overrid(?:e|es|ing)|bypass(?:es|ing)?|neglect)\b.{{0,60}}\b{_RULES}\b"
    r"|\bsystem prompt|\bdeveloper mode\b|\bjailbreak\w*|\bdo anything now\b"
    r"|\bignorier\w*.{0,60}\b(?:anweisung|regel|vorgabe|nachricht)"
    r"|\b(?:ignore[rz]?|oublie[rz]?)\b.{0,60}\b(?:instruction|regle|consigne)s?\b"
    r"|\b(?:ignor[ae]\w*|olvid[ae]\w*|dimentic\w+|esquec\w+)\b.{0,60}\b(?:instruc|istruzion|regla|regol|regra)"
    r"|\b(?:negeer|vergeet)\b.{0,60}\b(?:instructie|regel)|\b(?:zignoruj|pomin)\b.{0,60}\binstrukc"
    r"|\b(?:ignorer\w*|glem|glom)\b.{0,60}\b(?:instruks|instruktion|regl|regel)"
    r"|\b(?:игнорир|забуд)\w*.{0,60}\b(?:инструкц|правил|указан)|(?:忽略|无视|忘记).{0,20}(?:指令|指示|规则|说明)"
    r"|(?:指示|命令|ルール).{0,20}(?:無視|忘れ)|(?:지시|명령|규칙).{0,20}(?:무시|잊)|تجاهل.{0,40}(?:تعليمات|اوامر)",
    re.DOTALL,
)
# The same where it stands near a statement, not in its sentence: only what names earlier or all instructions.
_OVERRIDE_NEARBY = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:previous|prior|earlier|above|preceding|all|any|your|system)\b"
    rf".{{0,30}}\b{_RULES}\b|\b(?:reveal|print|show|repeat)\b.{{0,20}}\bsystem prompt",
    re.DOTALL,
)
# Commands to a memory, or to the model that reads for one.
_MEMORY_COMMAND = re.compile(
    r"\b(?:remember|memori[sz]e|record|store|save|note|learn|keep|write|add|commit|persist|log|put|update|append)\b"
    r".{0,40}\b(?:memory|memories|long[- ]term|profile|knowledge base|preferences?|facts?)\b"
    r"|\b(?:remember|memori[sz]e|keep in mind|bear in mind|make a note|take note|do not forget|don'?t forget)\b"
    r"|\b(?:record|store|save|note|learn|register|write down)\b[ :,-]{1,3}(?:that|this|the following|as)\b"
    rf"|\b(?:notes?|instructions?|message|reminder|hint|directive|memo)\b.{{0,12}}\b(?:for|to)\b.{{0,16}}\b{_AN_AI}\b"
    rf"|\b(?:dear|hey|hello|hi|attention|attn|note|important|@)[ :,]*(?:all |any |the )?{_AN_AI}\b"
    rf"|(?:^|[\n.!?>*#\"'(\[-])\s*(?:ai|assistant|agent|llm|system|user|human|developer)\s*:"
    rf"|\b{_AN_AI}\b.{{0,24}}\b(?:should|must|shall|will|needs? to|ha(?:s|ve) to|are to|is to|can now|may now)\b"
    r"|\bnew (?:system )?(?:instructions?|prompt|directive)\b|\byou are (?:now )?(?:an?|the)\b"
    r"|\bact as (?:an?|the|if)\b|\bpretend\b|\bfrom now on\b|\bhenceforth\b|\bgoing forward\b"
    r"|\bfor (?:all )?future (?:sessions?|reference|conversations?)\b"
    r"|\bin (?:all )?future (?:sessions?|conversations?|chats?)\b"
    r"|<\|?(?:im_start|im_end|system|user|assistant)\|?>|\[/?inst\]"
    r"|\bmerk\w* (?:dir|dich|euch)\b|\bspeicher(?:e|n sie)\b|\bdenk\w* daran\b|\bvergiss nicht\b"
    r"|\b(?:souviens|souvenez|rappelle|rappelez)\b|\bretene[zr]\b|\bretiens\b|\bmemorise[rz]?\b|\benregistre[rz]\b"
    r"|\b(?:recuerd[ae]|memoriza|guarda|anota|recuerde)\b|\b(?:ricorda(?:ti)?|memorizza|salva)\b"
    r"|\b(?:lembre(?:-se)?|memorize|guarde)\b|\bonthoud\w*|\bkom ihag\b|\bhusk\b|\bpamietaj\b|\bzapamietaj\b"
    r"|\b(?:запомни|помни|сохрани|запиши)\w*|记住|記住|牢记|保存到记忆|覚えて|記憶し|기억해|저장해|تذكر|احفظ",
    re.DOTALL,
)
# What tells somebody what to do.
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|pretend|execute|obey|comply|remember)\b"
    r"|\b(?:always|never|must|should|shall|ought|do not|don'?t|make sure|ensure|be sure|please|from now on)\b"
    r"|\b(?:you are|you're|system prompt|instructions?|developer mode|assistant|ai agent|language model)\b"
    r"|(?:^|[\n.:;!?-])\s*(?:run|send|delete|remove|download|install|fetch|post|email|forward|reply|transfer|upload|open"
    r"|visit|use|call|pay|wire|set|add|execute|disable|enable|grant|give|commit|push|merge|deploy|copy|curl|wget)\b"
    r"|\b(?:immer|niemals|nie|muss|mussen|soll|sollen|sollte\w*|bitte)\b"
    r"|\b(?:toujours|jamais|doit|doivent|devez|veuillez|il faut)\b"
    r"|\b(?:siempre|nunca|debe[nsr]?|hay que|sempre|mai|deve|devono|devem|bisogna)\b"
    r"|\b(?:altijd|nooit|moet(?:en)?|alltid|aldri|aldrig|skal|ska|zawsze|nigdy|musi|nalezy)\b"
    r"|\b(?:всегда|никогда|долж\w+|нужно|необходимо)|必ず|常に|べき|总是|總是|必须|必須|应该|不要|항상|반드시|دائما|يجب"
)
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


@lru_cache(maxsize=4096)
def fold_for_rules(text: str) -> str:
    """Return a text as these patterns read it: folded as quotes are, without accents."""
    folded = "\n".join(fold_text(line).text for line in text.splitlines()).replace("\u0131", "i")
    bare = "".join(char for char in unicodedata.normalize("NFD", folded) if not "\u0300" <= char <= "\u036f")
    return unicodedata.normalize("NFC", bare)


def overrides_instructions(text: str) -> bool:
    """Tell whether a text commands its reader to drop the instructions that it has."""
    return _OVERRIDE.search(_without_breaks(text)) is not None


def overrides_nearby(text: str) -> bool:
    """Tell whether a text around a statement does so, in words that hardly mean anything else."""
    return _OVERRIDE_NEARBY.search(_without_breaks(text)) is not None


def commands_memory(text: str) -> bool:
    """Tell whether a text addresses a memory, or the model that reads it, instead of saying something."""
    folded = fold_for_rules(text)
    return any(pattern.search(form) for pattern in (_MEMORY_COMMAND, _OVERRIDE) for form in (folded, _one_line(folded)))


def is_order(text: str) -> bool:
    """Tell whether a text tells somebody what to do."""
    return _ORDER.search(fold_for_rules(text)) is not None


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


def _without_breaks(text: str) -> str:
    """Return a folded text on one line: a command may be spread over several."""
    return _one_line(fold_for_rules(text))


def _one_line(text: str) -> str:
    return " ".join(text.replace(">", " ").split())
