"""Recognises texts that tell somebody what to do: orders, and attempts to command whoever reads a log.

Texts are compared folded: without case, accents, invisible characters and typographic variants. The lists hold the
common wordings of a dozen languages; they can never be complete, so nothing is believed for passing them alone.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from consolidator.memory.facts.quotes import fold_text

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
    r"|\bact as (?:an?|the|if)\b"
    r"|\bpretend\b|\bfrom now on\b|\bhenceforth\b|\bgoing forward\b"
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


def _without_breaks(text: str) -> str:
    """Return a folded text on one line: a command may be spread over several."""
    return _one_line(fold_for_rules(text))


def _one_line(text: str) -> str:
    return " ".join(text.replace(">", " ").split())
