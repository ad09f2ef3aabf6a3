"""Grounds the subject of a fact in the words that prove it, so that what is said of one person is not another's.

A clause is about the speaker by its first person, or for want of anybody else; about the other of two who talk by its
second person; about somebody else by a name or a relative in it, or by a pronoun where the message names just one
person. What a model writes beyond that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.orders import fold_for_rules
from consolidator.memory.facts.people import (
    PERSONS_NAMES,
    has_thing_word,
    is_kin,
    is_project,
    is_thing_word,
    name_tokens,
)
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.text.phrasing import word_set
from consolidator.memory.text.similarity import content_words
from consolidator.memory.text.surroundings import sentence_around

NOT_THE_SPEAKER = "said about somebody else than the speaker"
NOT_GROUNDED = "its subject is not in the words it cites"
_FIRST = word_set(
    """
    i i'm i've i'd i'll im ive id we we're we've we'd we'll my mine our ours me us myself ourselves ich wir mein meine
    meinen meinem meiner unser unsere mir mich je j'ai j'habite nous mon ma mes notre yo mi mis nosotros eu meu minha io
    mio mia ik wij mijn jag jeg mitt я мой моя мы 我 私 僕
    """
)
_SUBJECT_FIRST = word_set(
    "i i'm i've i'd i'll im ive we we're we've we'd we'll "
    "ich wir je j'ai j'habite nous yo nosotros eu io ik wij jag jeg я мы"
)
_MY = word_set(
    "my our mein meine meinen meinem meiner unser unsere "
    "mon ma mes notre mi mis meu minha mio mia mijn min mitt mina мой моя"
)
_SECOND = word_set("you you're you've you'd you'll your yours yourself")
_THIRD = word_set(
    "he she he's she's he'd she'd he'll she'll his her hers him himself herself "
    "er sie ihr sein seine il elle lui sa ella lei lui hij zij "
    "han hun hon hans hennes он она его ее"
)
_THIRD_SUBJECT = word_set("he she he's she's he'd she'd he'll she'll er sie il elle ella hij zij han hun hon он она")
_NO_NAMES = word_set(
    """
    i the a an and but or so if when while then now also oh ok okay yes no not please thanks thank hi hello hey well
    also still now it which whom whose they as user
    just in on at for from to by of with since after before during last next this that these those it its my your his
    her our their what who where why how there here all any some every most many more monday tuesday wednesday thursday
    friday saturday sunday january february march april may june july august september october november december
    """
)
_BEGINNINGS = word_set(
    """
    never always already recently once twice went got took made gave said told bought found left lost kept met came saw
    had has have was were is are did does do been started moved grew lives works likes loves wants prefers needs hope
    hopefully maybe perhaps actually currently yep yeah nope sure nothing everything something everyone someone nobody
    """
)
_VERB = re.compile(
    r"\s+(?:(?:also|just|still|now|always|never|really|already|recently|both|has|have|had|will|would|can|could|who)\s+)*"
    r"(?:is|was|are|were|has|had|have|does|did|will|would|can|could|[a-z]{2,}(?:s|ed)|went|got|took|made|gave|said|told|"
    r"bought|found|left|lost|kept|met|came|saw|works?|wohnt|lebt|arbeitet|heisst|ist|hat|habite|vit|est|a|vive|es|bor|ar)\b"
    r"|['’]s\b"
)
_PERSONS_VERB = re.compile(
    r"\s+(?:lives|resides|prefers|likes|wants|loves|hates|enjoys|owns|studies|wohnt|habite|vive|bor)\b"
)
_JOINED = re.compile(r",? (?:and|who)(?= )|,")
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Mention:
    """Somebody in a sentence: the speaker, the addressee, a pronoun's person, a relative or a name."""

    start: int
    who: str  # first | second | third | other
    word: str  # of a relative or a name, folded
    governs: bool  # whether it is the subject of what follows it


def find_subject_objection(
    fact: Mapping[str, Any],
    proofs: Sequence[tuple[TranscriptLine, str]],
    chunk: TranscriptChunk,
    session: SessionContext,
) -> str | None:
    """Return why a fact of a person's words is not about whom it says; None where it is."""
    subject = str(fact["subject"]).strip()
    value = content_words(str(fact["value"]))
    stating = [proof for proof in proofs if value & content_words(proof[1])] or list(proofs)
    for line, quote in stating:
        if (objection := _objection(subject, str(fact["value"]), line, quote, chunk, session)) is not None:
            return objection
    return None


def _objection(
    subject: str, value: str, line: TranscriptLine, quote: str, chunk: TranscriptChunk, session: SessionContext
) -> str | None:
    sentence = sentence_around(line.text, quote)
    speakers = {other.speaker for other in (*chunk.lines, *chunk.context) if other.speaker}
    people = name_tokens([session.peer, *speakers])
    position = _position_of(value, quote, sentence)
    own = name_tokens([line.speaker or session.peer])
    of_value = name_tokens([value])
    mentions = [
        mention
        for mention in find_mentions(sentence, people - own, own)
        if mention.word not in of_value or mention.word in people
    ]
    governing = _governing(mentions, position)
    if is_speaker(subject, line, session):
        is_others = governing is not None and governing.who in ("third", "other")
        return NOT_THE_SPEAKER if is_others else None
    words = name_tokens([subject])
    if words & people:
        return _objection_to_person(words, line, sentence, mentions, governing, position, session)
    if is_project(subject, session.project):
        return None
    return _objection_to_named(subject, words, line, mentions, governing, position)


def is_speaker(subject: str, line: TranscriptLine, session: SessionContext) -> bool:
    """Tell whether a subject is the speaker of a line: "user", or their name; the peer, where no line has a name."""
    name = subject.casefold()
    own = {other.casefold() for other in (line.speaker, None if line.speaker else session.peer) if other}
    return (
        name in PERSONS_NAMES
        or name in own
        or bool(own and name_tokens([name]) and name_tokens([name]) <= name_tokens(own))
    )


def find_mentions(
    sentence: str, people: frozenset[str] = frozenset(), own: frozenset[str] = frozenset()
) -> list[Mention]:
    """Return the people whom a sentence mentions, in order.

    `people` are words of names that need no capital, `own` those of the speaker's own name.
    """
    mentions: list[Mention] = []
    tokens = list(_TOKEN.finditer(sentence))
    for index, token in enumerate(tokens):
        word = fold_for_rules(token[0])
        before = fold_for_rules(tokens[index - 1][0]) if index else ""
        bare = word.removesuffix("'s")
        follows = _VERB.match(sentence, token.end() - (2 if word.endswith("'s") else 0)) is not None
        if bare in own or (before.removesuffix("'s") in own and token[0][:1].isupper()):
            mentions.append(Mention(token.start(), "first", "", follows))
        elif word in _FIRST or token[0] == "I":
            owned = fold_for_rules(tokens[index + 1][0]).removesuffix("'s") if index + 1 < len(tokens) else ""
            if word not in _MY or not is_kin(owned):
                mentions.append(Mention(token.start(), "first", "", word in _SUBJECT_FIRST or word in _MY))
        elif word in _SECOND:
            mentions.append(Mention(token.start(), "second", "", governs=True))
        elif word in _THIRD:
            mentions.append(Mention(token.start(), "third", "", word in _THIRD_SUBJECT or follows))
        elif is_kin(bare) and (before in _MY or before in _THIRD or before in ("the", "a", "one", "of")):
            joined = _JOINED.match(sentence, token.end())
            follows = follows or (joined is not None and _VERB.match(sentence, joined.end()) is not None)
            mentions.append(Mention(token.start(), "other", bare, follows))
        elif _PERSONS_VERB.match(sentence, token.end()) and word not in _NO_NAMES and not is_thing_word(word):
            mentions.append(Mention(token.start(), "other", bare, governs=True))
        elif bare in people or _is_name(token, sentence, word, index):
            mentions.append(Mention(token.start(), "other", bare, follows and not is_thing_word(bare)))
    return mentions


def _is_name(token: re.Match[str], sentence: str, word: str, index: int) -> bool:
    if not token[0][:1].isupper() or token[0].isupper() or word in _NO_NAMES or is_thing_word(word):
        return False
    starts = index == 0 or bool(re.search(r"[.!?:;\n]\W*$", sentence[: token.start()]))
    if not starts:
        return True
    # At the beginning anything has a capital: a name is followed by a verb, and not by "is my", as an activity is.
    if word in _BEGINNINGS or re.search(r"(?:ing|ed|ly)$", word) or _VERB.match(sentence, token.end()) is None:
        return False
    following = [fold_for_rules(after) for after in _TOKEN.findall(sentence[token.end() :])[:5]]
    return not any(
        mine in ("my", "me", "us", "our") and not is_kin(owned.removesuffix("'s"))
        for mine, owned in zip(following, [*following[1:], ""], strict=True)
    )


def _position_of(value: str, quote: str, sentence: str) -> int:
    """Return where a sentence states the value: at its first word in the quote, else at the quote's end."""
    start = max(sentence.find(quote), 0)
    folded = sentence.casefold()
    places = [
        place
        for word in _TOKEN.findall(value.casefold())
        if len(word) > 2 and content_words(word) and start <= (place := folded.find(word, start)) < start + len(quote)
    ]
    return min(places, default=min(start + len(quote), len(sentence)))


def _governing(mentions: Sequence[Mention], position: int) -> Mention | None:
    """Return who is the subject of what stands at a position: the nearest before it, else the nearest at all."""
    before = [mention for mention in mentions if mention.governs and mention.start < position]
    after = [mention for mention in mentions if mention.governs and mention.start >= position]
    return before[-1] if before else after[0] if after else None


def _objection_to_person(
    words: frozenset[str],
    line: TranscriptLine,
    sentence: str,
    mentions: Sequence[Mention],
    governing: Mention | None,
    position: int,
    session: SessionContext,
) -> str | None:
    """Return why words are not about another known person: neither named, nor the one who is addressed."""
    if session.is_among_people(line.speaker) and any(mention.who == "second" for mention in mentions):
        return None
    return _objection_to_named("", words, line, mentions, governing, position)


def _objection_to_named(
    subject: str,
    words: frozenset[str],
    line: TranscriptLine,
    mentions: Sequence[Mention],
    governing: Mention | None,
    position: int,
) -> str | None:
    """Return why words are not about a third person or a thing of this name; None where they are."""
    named = [mention for mention in mentions if mention.word and mention.word in words]
    if named:
        before = [mention for mention in mentions if mention.start <= position]
        nearest = before[-1] if before else mentions[0]
        is_its = governing is None or nearest.word in words or governing.word in words or governing.who == "third"
        return None if is_its else NOT_GROUNDED
    everything = content_words(line.text) | name_tokens([line.text])
    others = {mention.word for mention in find_mentions(line.text) if mention.who == "other" and mention.word}
    if words & others:  # named elsewhere in the message: a pronoun may stand for the only one there
        is_pronoun = governing is not None and governing.who == "third"
        return None if is_pronoun and others <= words else NOT_GROUNDED
    if any(is_kin(word) for word in words):
        return NOT_GROUNDED
    stated = content_words(subject)
    if stated & everything or has_thing_word(subject) or _is_alike(stated, everything):
        return None
    return NOT_GROUNDED


def _is_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    return any(
        len(word) >= 4 and len(other) >= 4 and (word.startswith(other) or other.startswith(word))
        for word in words
        for other in others
    )
