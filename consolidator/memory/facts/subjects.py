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
    is_own_relative,
    is_project,
    is_thing_word,
    name_tokens,
    relative_name,
)
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.facts.verbs import begins_order, is_base_form, says_of_name, stands_after_opening
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
    "they they're they've they'd they'll he she he's she's he'd she'd he'll she'll his her hers him himself herself "
    "er sie ihr sein seine il elle lui sa ella lei lui hij zij "
    "han hun hon hans hennes он она его ее"
)
_THIRD_SUBJECT = word_set(
    "they they're they've they'd they'll he she he's she's he'd she'd he'll she'll "
    "er sie il elle ella hij zij han hun hon он она"
)
_NO_NAMES = word_set(
    """
    i the a an and but or so if when while then now also oh ok okay yes no not please thanks thank hi hello hey well
    also still now it which whom whose as user let lets
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
_PERSONS_VERB = re.compile(
    r"\s+(?:lives|resides|prefers|likes|wants|loves|hates|enjoys|owns|uses|studies|wohnt|habite|vive|bor)\b"
)
_CLAUSE_END = re.compile(r"[.!?:;,\n\u2013\u2014(]\W*$")
_SENTENCE_END = re.compile(r"[.!?:;\n]\W*$")
_ACTIVITY = re.compile(r"(?:ing|ed|ly|tion|sion|ness|ship|ism)$")
_ARTICLES = word_set("the a one of der die das den dem des ein eine einen le la les l un une el los")
_DETERMINERS = _ARTICLES | word_set("all any every each no some this these that those")
_PREPOSITIONS = word_set(
    "at in near by to from via on for of about with behind opposite outside inside around beim bei im zum vom nach aus "
    "an am mit von für chez au aux a de du des en"
)
_MAX_NOUN_WORDS = 4  # of what is the speaker's, before what says which one it is
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Mention:
    """Somebody in a sentence: the speaker, the addressee, a pronoun's person, a relative or a name."""

    start: int
    who: str  # first | implied (of an order) | second | third | other
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
    words = _relatives_by_one_name(name_tokens([subject]))
    mentions = [mention for mention in mentions if mention.who != "implied"]
    governing = _governing(mentions, position)
    if words & people:
        return _objection_to_person(words, line, sentence, mentions, governing, position, session)
    if is_project(subject, session.project):
        return None
    spoken = " ".join(f"{other.text} {other.speaker or ''}" for other in (*chunk.lines, *chunk.context))
    return _objection_to_named(subject, words, line, mentions, governing, position, spoken)


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
    words = _Words(sentence)
    is_plural = False  # whether those who govern are several, so that a base form says something of them
    for index, token in enumerate(words.tokens):
        word, bare, before = words.folded[index], words.bare(index), words.before(index)
        if words.ends_sentence_before(index):
            is_plural = False
        if not is_plural and words.is_order(index):
            mentions.append(Mention(token.start(), "implied", "", governs=True))
        elif bare in own or (before.removesuffix("'s") in own and token[0][:1].isupper()):
            mentions.append(Mention(token.start(), "first", "", words.is_said_of(index)))
        elif word in _FIRST or token[0] == "I":
            if word not in _MY or not is_kin(words.bare(index + 1)):
                mentions.append(Mention(token.start(), "first", "", word in _SUBJECT_FIRST or word in _MY))
        elif word in _SECOND:
            mentions.append(Mention(token.start(), "second", "", governs=True))
        elif word in _THIRD:
            mentions.append(Mention(token.start(), "third", "", word in _THIRD_SUBJECT or words.is_said_of(index)))
        elif is_kin(bare) and (before in _MY or before in _THIRD or before in _ARTICLES or is_own_relative(bare)):
            several = words.are_said_of(index)
            is_plural = is_plural or several
            mentions.append(
                Mention(token.start(), "other", relative_name(bare), several or words.is_said_of_relative(index))
            )
        elif _PERSONS_VERB.match(sentence, token.end()) and word not in _NO_NAMES and not is_thing_word(word):
            mentions.append(Mention(token.start(), "other", relative_name(bare), governs=True))
        elif bare in people or words.is_name(index):
            several = before == "and" and words.are_said_of(index)
            is_plural = is_plural or several
            is_subject = several or (words.is_said_of(index) and not words.is_complement(index))
            governs = is_subject and not is_thing_word(bare)
            mentions.append(Mention(token.start(), "other", relative_name(bare), governs))
    return mentions


class _Words:
    """The words of a sentence, and what their places say of them."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.tokens = list(_TOKEN.finditer(sentence))
        self.folded = [fold_for_rules(token[0]) for token in self.tokens]

    def bare(self, index: int) -> str:
        """Return a word without the ending of its possessive; "" beyond the last."""
        return self.folded[index].removesuffix("'s") if index < len(self.folded) else ""

    def before(self, index: int) -> str:
        """Return the word before another; "" before the first."""
        return self.folded[index - 1] if index else ""

    def ends_sentence_before(self, index: int) -> bool:
        """Tell whether a word is the first of its sentence, or of what stands after a colon."""
        return index == 0 or _SENTENCE_END.search(self._gap(index)) is not None

    def begins_clause(self, index: int) -> bool:
        """Tell whether a clause may begin at a word."""
        return (
            index == 0 or _CLAUSE_END.search(self._gap(index)) is not None or stands_after_opening(self.before(index))
        )

    def is_order(self, index: int) -> bool:
        """Tell whether an order begins at a word: its subject is who is spoken to, at the speaker's wish."""
        return self.begins_clause(index) and begins_order(self._phrase(index), 0) is not None

    def is_said_of(self, index: int) -> bool:
        """Tell whether a verb says something of a name, or the name owns what follows it."""
        return self.folded[index].endswith("'s") or says_of_name(self._phrase(index), 0, self._is_subject(index))

    def are_said_of(self, index: int) -> bool:
        """Tell whether a verb says something of several, the last of whom stands here."""
        following = self._phrase(index)[1:2]
        return bool(following) and (is_base_form(following[0]) or following[0] in ("are", "were", "have"))

    def is_said_of_relative(self, index: int) -> bool:
        """Tell the same of a relative, after whom a name may stand, or "and", "who" or a comma."""
        if self.is_said_of(index):
            return True
        after = index + 1
        # "My brother" at the beginning is who the clause is about, whatever the verb is.
        is_first = self.before(index) in _MY and self.begins_clause(index - 1) and len(self._phrase(index)) > 1
        if is_first and self.folded[after] not in ("and", "or", "in", "of", "from", "at", "who"):
            return True
        joined = after < len(self.folded) and self._gap(after).strip() == ","
        if self.folded[after : after + 1] and self.folded[after] in ("and", "who"):
            return says_of_name(self._phrase(after), 0, is_subject=True)
        return joined and says_of_name(["", *self._phrase(after)], 0, is_subject=True)

    def is_name(self, index: int) -> bool:
        """Tell whether a word with a capital is a name, or the first of a sentence."""
        token, bare = self.tokens[index], self.bare(index)
        if not token[0][:1].isupper() or token[0].isupper() or bare in _NO_NAMES or is_thing_word(bare):
            return False
        if self.before(index) in _MY:  # a thing of the speaker's, unless it does what people do
            return _PERSONS_VERB.match(self.sentence, token.end()) is not None
        if not self.ends_sentence_before(index):
            return True
        # At the beginning anything has a capital: a name is followed by a verb, and not by "is my", as an activity is.
        if bare in _BEGINNINGS or _ACTIVITY.search(bare) or not (self.is_said_of(index) or self._is_full_name(index)):
            return False
        following = self.folded[index + 1 : index + 6]
        if self.folded[index].endswith("'s") and following and following[0].endswith("ing"):  # "Work's going well"
            return False
        return not any(
            mine in ("my", "me", "us", "our") and not is_kin(owned.removesuffix("'s"))
            for mine, owned in zip(following, [*following[1:], ""], strict=True)
        )

    def _gap(self, index: int) -> str:
        """Return what stands between a word and the one before it."""
        return self.sentence[self.tokens[index - 1].end() : self.tokens[index].start()]

    def _phrase(self, index: int) -> list[str]:
        """Return the words from one on that follow each other with nothing but spaces between them."""
        end = index + 1
        while end < len(self.folded) and not self._gap(end).strip():
            end += 1
        return self.folded[index:end]

    def _is_full_name(self, index: int) -> bool:
        following = self.tokens[index + 1 : index + 2]
        return bool(
            following
            and following[0][0].istitle()
            and self._gap(index + 1) == " "
            and says_of_name(self._phrase(index + 1), 0, is_subject=True)
            and not self.is_order(index)
        )

    def is_complement(self, index: int) -> bool:
        """Tell whether a name only says which thing of the speaker is meant, as in "my appointment at Colgate House".

        The thing is the subject, and not whoever or whatever stands after the preposition.
        """
        place = index - 1
        while place > 0 and self.tokens[place][0].istitle() and self.folded[place] not in _PREPOSITIONS:
            place -= 1
        if place <= 0 or self.folded[place] not in _PREPOSITIONS or "'s" in self.folded[index]:
            return False
        for start in range(place - 1, max(place - 1 - _MAX_NOUN_WORDS, 0) - 1, -1):
            if self.folded[start] in _MY:
                things = self.folded[start + 1 : place]
                is_one_phrase = len(self._phrase(start)) > index - start
                return bool(things) and is_one_phrase and self.begins_clause(start) and not any(map(is_kin, things))
            if says_of_name(["", self.folded[start]], 0, is_subject=False):
                return False
            if self.tokens[start][0].istitle() and self.before(start) not in _MY:  # as a German noun is
                return False
        return False

    def _is_subject(self, index: int) -> bool:
        """Tell whether a name stands where a subject does: first in a clause, or after such a name."""
        if self.begins_clause(index):
            return True
        if self._gap(index).strip() or self.is_order(index - 1) or self.before(index) in _DETERMINERS:
            return False
        before = self.before(index)
        is_of_role = index > 1 and self.before(index - 1) in _MY and self.tokens[index - 1][0].islower()
        return (
            is_kin(before)
            or is_of_role
            or (self.tokens[index - 1][0].istitle() and before not in _NO_NAMES and self._is_subject(index - 1))
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
    spoken: str = "",
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
    # What has no name is described, in whatever language; a name that nobody said is another's.
    names = [name.casefold() for name in re.findall(r"[\w@][\w./@+-]*", subject) if name != name.lower()]
    return None if subject and all(_stands_in(name, spoken.casefold()) for name in names) else NOT_GROUNDED


def _relatives_by_one_name(words: frozenset[str]) -> frozenset[str]:
    return frozenset(map(relative_name, words))


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text) is not None


def _is_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    return any(
        len(word) >= 4 and len(other) >= 4 and (word.startswith(other) or other.startswith(word))
        for word in words
        for other in others
    )
