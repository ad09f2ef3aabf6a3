"""The names of relations: rules and models name the same relation in many ways, and facts have one name for it.

A name that the table does not know stays as it is: two relations that are only alike must not become one.
"""

from __future__ import annotations

import re

# The name of a relation, as the rules have it -> what else it is called.
_SYNONYMS = {
    "name": "full name, is named, named, is called, user name is, has name, first and last name",
    "home": "lives in, live in, residence, resides in, home city, city of residence, lives at, is based in, "
    "based in, current residence, place of residence",
    "employer": "works at, works for, employed by, employed at, is employed by, workplace, has employer, job at",
    "occupation": "job, job title, profession, works as, has occupation, has job",
    "email": "email address, e mail, e mail address, has email, contact email",
    "phone number": "telephone number, mobile number, mobile phone number, has phone number",
    "date of birth": "birthday, birth date, born on, birthdate, was born on, has birthday",
    "address": "postal address, home address, mailing address, shipping address, street address",
    "time zone": "timezone, has timezone, local timezone, local time zone",
    "pronouns": "uses pronouns, preferred pronouns, has pronouns",
    "native language": "first language, mother tongue, speaks natively",
    "language of answers": "answer language, response language, preferred language of answers, wants answers in, "
    "preferred response language",
    "user id": "userid, has user id, account user id",
    "diet": "dietary restriction, dietary preference, follows diet",
    "membership": "membership level, membership tier, member tier, has membership, loyalty tier",
    "prefers": "preference, has preference, would prefer, preferred",
    "like": "likes, is fond of, has liking for",
    "love": "loves",
    "enjoy": "enjoys",
    "hate": "hates, detests, loathes",
    "don't like": "dislikes, dislike, does not like, doesn't like",
    "uses": "use, is using, uses tool, uses technology",
    "does not use": "doesn't use, do not use, never uses",
    "package manager": "uses package manager, has package manager",
    "database": "uses database, has database, database is",
    "default branch": "main branch, has default branch, main branch name",
    "decided": "decision, has decided, decided to",
    "rule": "must follow, standing instruction",
    "rule against": "forbids, prohibits",
}
_CANONICAL = {
    spelling: name
    for name, others in _SYNONYMS.items()
    for spelling in (name, *(part.strip() for part in others.split(",")))
}
# Relations that hold one value at a time by what they mean, whatever a model says of them.
_SINGLE_VALUED = (
    *("name", "home", "employer", "occupation", "email", "phone number", "date of birth", "address", "time zone"),
    *("pronouns", "native language", "language of answers", "user id", "membership", "package manager"),
    "default branch",
)
_FAVORITE = re.compile(r"(?:has )?(?:favou?rite|preferred) (?=\w)")


def canonical_relation(predicate: str) -> str:
    """Return the one name of a relation: that of the table, else the predicate as it is."""
    words = " ".join(predicate.replace("_", " ").replace("’", "'").casefold().split())
    if words in _CANONICAL:
        return _CANONICAL[words]
    favorite = _FAVORITE.match(words)
    return f"favorite {words[favorite.end() :]}" if favorite and "_" in predicate else predicate


def is_single_valued(predicate: str) -> bool:
    """Tell whether a relation holds one value at a time by what it means."""
    return canonical_relation(predicate) in _SINGLE_VALUED


def spellings_of(predicate: str) -> list[str]:
    """Return the names under which a relation may be stored, the predicate itself among them."""
    name = canonical_relation(predicate)
    others = {part.strip() for part in _SYNONYMS.get(name, "").split(",")} - {""}
    spellings = {predicate, name, *others}
    return sorted(spellings | {spelling.replace(" ", "_") for spelling in others | {name} if name in _SYNONYMS})
