"""The forms in which people state who they are and what they prefer; a table, read by `rules`."""

from __future__ import annotations

import re

from consolidator.memory.facts.rule_pattern import rule
from consolidator.memory.facts.value_checks import identifier, imperative, kind_of_thing, lasts, named, practice, token
from consolidator.memory.text.phrasing import is_general, points

_WORD = r"[^\W\d_][\w'’-]*"
_CAP = r"[A-ZÀ-Þ][\w'’-]+"
_IM = r"(?:I'm|I’m|I am|i'm|i’m|i am)"
# Where a value must end: before anything else it says something else ("a doctor's assistant", "in Berlin no longer").
_END = r"(?=$|[,;!?()]|\.(?:\s|$)| - | – | — | (?:and|but|{})\b)"
_PLACED = r"(?!, (?!I['’])[A-ZÀ-Þ][\w'’-])" + _END.format("with|since|because|now|near|at|for")
_EMPLOYED = _END.format("as|in|with|since|because|on|now")
_BEING = _END.format("at|in|of|for|from|with|by|on|who|working|based|living|here|now|since|because|so|trying|looking")
_GIVEN = _END.format("if")
_ENDED = re.compile(r"\b(?:no (?:longer|more)|not|never|wrong)\b", re.IGNORECASE)
_IS = r"(?:,? (?:it's|it is|is|which is)|'s|’s|:| is:)"
_LANGUAGES = (
    r"(?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Czech|Russian|Ukrainian|Turkish|Swedish|"
    r"Norwegian|"
    r"Danish|Finnish|Greek|Hungarian|Romanian|Japanese|Chinese|Mandarin|Korean|Hindi|Arabic|Hebrew|Vietnamese|Thai|"
    r"Indonesian)"
)
_ROLE = (
    r"(?:(?!bit|little|lot|huge|big|few|couple)\w+[ -]){0,3}(?:developer|engineer|designer|student|teacher|doctor|"
    r"nurse|"
    r"lawyer|scientist|researcher|professor|writer|journalist|accountant|architect|analyst|consultant|founder|"
    r"freelancer|"
    r"physicist|mathematician|economist|programmer|sysadmin|maintainer|vegetarian|vegan|product manager|"
    r"project manager)"
)
_RELATIVE = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|son|daughter|mother|father|mom|dad|brother|sister|dog|cat|boss|"
    r"manager|"
    r"assistant|cofounder|co-founder|roommate)"
)
_ADVERBS = (
    r"(?:(?:really|strongly|generally|usually|always|much|personally|definitely|also|normally|typically|absolutely|"
    r"very "
    r"much|just) ){0,2}"
)
_LIKE = r"(?P<what>like|love|hate|dislike|enjoy|can't stand|don't like|do not like)"
_TIER = r"(?P<value>gold|silver|platinum|bronze|diamond|premium|regular|basic|vip)"
_HABIT_NOT = r"(?:know|think|thought|understand|want(?:ed)?|see|get|find|feel|receive|remember|asked?|mind|thought)\b"


def _preferred(value: str) -> bool:
    return is_general(value) and not re.search(
        r"\b(?:not to|instead|options?|if possible|refund|transfer|gift card|payment|pay)\b", value
    )


def _habit(value: str) -> bool:
    return imperative(value) and is_general(value) and not re.match(_HABIT_NOT, value, re.IGNORECASE)


def _means(value: str) -> bool:
    return practice(value) and not re.search(r"\b(?:card|certificate|gift|membership)s?\b", value)


PROFILE = (
    rule(
        rf"\bmy (?:full |first )?name{_IS}\s+(?P<value>{_WORD}(?: {_WORD}){{0,3}}?)"
        r"(?=$|[,;!?(]|\.(?:\s|$)| and | but | - )",
        "name",
        "the name of {whom} is {value}.",
        "profile",
        single=True,
        check=named,
        anywhere=True,
    ),
    rule(
        rf"(?:[Yy]ou can |[Jj]ust )?[Cc]all me (?P<value>{_CAP}(?: {_CAP})?)(?=$|[,;.!?]| from now)",
        "name",
        "{who} wants to be called {value}.",
        "profile",
        single=True,
        check=named,
        cased=True,
    ),
    rule(
        rf"(?:{_IM}|[Tt]his is) (?P<value>{_CAP} {_CAP}(?: {_CAP})?)(?=$|[,;.!?]| from | and | here\b)",
        "name",
        "the name of {whom} is {value}.",
        "profile",
        single=True,
        check=named,
        cased=True,
    ),
    rule(
        rf"\bmy (?:user ?(?:id|name)|id)(?: number)?(?:{_IS}|,| should be)?\s+"
        r"(?P<value>[\w.@+-]{0,63}?[\d_@][\w.@+-]{0,63})(?<![.-])(?!['’]?\w)",
        "user id",
        "the user ID of {whom} is {value}.",
        "profile",
        single=True,
        check=identifier,
        anywhere=True,
    ),
    rule(
        rf"i(?:'m|’m| am) (?P<value>[a-z]+(?:_[a-z]+)*_\d+){_GIVEN}",
        "user id",
        "the user ID of {whom} is {value}.",
        "profile",
        single=True,
        check=identifier,
    ),
    rule(
        r"\bmy (?P<what>(?:customer|account|member(?:ship)?|employee|loyalty|frequent flyer|badge) (?:id|number))"
        rf"{_IS}\s+(?P<value>[\w.@+-]+\w)",
        "{what}",
        "the {what} of {whom} is {value}.",
        "profile",
        single=True,
        check=identifier,
        anywhere=True,
    ),
    rule(
        r"\bmy (?P<what>github|gitlab|twitter|slack|discord|telegram)(?: user ?name| handle| account| id)"
        rf"{_IS}\s+(?P<value>@?[\w.-]+\w)",
        "{what} account",
        "the {what} account of {whom} is {value}.",
        "profile",
        single=True,
        check=lambda value: named(value) or identifier(value),
        anywhere=True,
    ),
    rule(
        rf"\bmy (?:work |personal |private )?e-?mail(?: address)?(?: on file)?{_IS}\s+"
        r"(?P<value>[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5})",
        "email",
        "the email address of {whom} is {value}.",
        "profile",
        single=True,
        check=bool,
        anywhere=True,
    ),
    rule(
        rf"\bmy (?:(?:cell|mobile|tele|work|home) ?)?phone(?: number)?{_IS}\s+(?P<value>\+?[\d() .-]{{6,20}}\d)",
        "phone number",
        "the phone number of {whom} is {value}.",
        "profile",
        single=True,
        check=bool,
        anywhere=True,
    ),
    rule(
        rf"\bmy (?:date of birth|dob|birth ?day|birth date){_IS}(?: on)?\s+(?P<value>[A-Za-z0-9 ,/.-]{{2,30}}\d)"
        r"(?=$|[;.!?]|, (?:and|but)| and | but )",
        "date of birth",
        "{who} was born on {value}.",
        "profile",
        single=True,
        check=lambda value: not _ENDED.search(value),
        anywhere=True,
    ),
    rule(
        r"my (?:home |postal |mailing |shipping )?address is (?P<value>[^?!]*\d[^?!]*)",
        "address",
        "the address of {whom} is {value}.",
        "profile",
        single=True,
        check=lambda value: not points(value, within=2) and ":/" not in value,
        whole=True,
    ),
    rule(
        r"my (?:local )?time ?zone is (?P<value>\S+(?: time)?)",
        "time zone",
        "the time zone of {whom} is {value}.",
        "profile",
        single=True,
        check=token,
    ),
    rule(
        rf"[Ii] (?:currently |now )?live in (?P<value>(?:the )?{_CAP}(?:,? {_CAP}){{0,3}}){_PLACED}",
        "home",
        "{who} lives in {value}.",
        "profile",
        single=True,
        check=bool,
        cased=True,
    ),
    rule(
        rf"{_IM} (?:based|located|living) in (?P<value>(?:the )?{_CAP}(?:,? {_CAP}){{0,3}}){_PLACED}",
        "home",
        "{who} is based in {value}.",
        "profile",
        single=True,
        check=bool,
        cased=True,
    ),
    rule(
        rf"[Ii] work (?:at|for) (?P<value>{_CAP}(?: {_CAP}){{0,3}}){_EMPLOYED}",
        "employer",
        "{who} works for {value}.",
        "profile",
        single=True,
        check=named,
        cased=True,
    ),
    rule(
        rf"i work as an? (?P<value>[\w -]{{3,60}}){_GIVEN}",
        "occupation",
        "{who} works as {value}.",
        "profile",
        single=True,
        check=lambda value: len(value.split()) <= 6 and not _ENDED.search(value),
    ),
    rule(
        rf"i(?:'m|’m| am) an? (?P<value>{_ROLE}){_BEING}",
        "occupation",
        "{who} is a {value}.",
        "profile",
    ),
    rule(
        rf"(?:\bi(?:'m|’m| am|'ve been|’ve been| have been)|^as) an? {_TIER}[ -](?:\w+ )?(?:member|customer|"
        rf"subscriber)\b",
        "membership",
        "{who} is a {value} member.",
        "profile",
        single=True,
        check=bool,
        anywhere=True,
    ),
    rule(
        rf"i(?:'m|’m| am) (?P<value>vegan|vegetarian|(?:allergic|intolerant) to [\w -]+){_BEING}",
        "diet",
        "{who} is {value}.",
        "profile",
    ),
    rule(
        r"my pronouns are (?P<value>[\w/ ]+)",
        "pronouns",
        "the pronouns of {whom} are {value}.",
        "profile",
        single=True,
        check=bool,
    ),
    rule(
        rf"my (?:native|first|mother) (?:language|tongue) is (?P<value>{_LANGUAGES})",
        "native language",
        "the native language of {whom} is {value}.",
        "profile",
        single=True,
        check=bool,
    ),
    rule(
        r"(?:always )?(?:answer|reply|respond|talk|write|speak)(?: to me)?(?: only)? in "
        rf"(?P<value>{_LANGUAGES})(?=$|[,;.!?]| from now| always| please)",
        "language of answers",
        "{who} wants answers in {value}.",
        "preference",
        single=True,
        check=bool,
    ),
    rule(
        rf"[Mm]y (?P<what>{_RELATIVE})(?:(?:'s|’s) name is| is called| is named) (?P<value>{_CAP}(?: {_CAP})?)"
        r"(?=$|[,;.!?]| and )",
        "{what}",
        "the {what} of {whom} is {value}.",
        "relation",
        single=True,
        check=named,
        cased=True,
    ),
)

PREFERENCES = (
    rule(
        rf"i (?:would )?{_ADVERBS}prefer (?P<value>.+)",
        "prefers",
        "{who} prefers {value}.",
        "preference",
        check=_preferred,
    ),
    rule(
        r"my (?P<what>(?:preferred|favou?rite) [\w -]{2,30}?) (?:is|are) (?P<value>.+)",
        "{what}",
        "the {what} of {whom} is {value}.",
        "preference",
        single=True,
    ),
    rule(
        r"my preference is (?:for |to )?(?P<value>.+)",
        "prefers",
        "{who} prefers {value}.",
        "preference",
        check=_preferred,
    ),
    rule(
        rf"i {_ADVERBS}{_LIKE} (?:it )?when (?P<value>.+)",
        "{what} when",
        "{who} {does} it when {value}.",
        "preference",
        check=lasts,
        whole=True,
    ),
    rule(
        rf"i {_ADVERBS}{_LIKE} (?P<value>.+)",
        "{what}",
        "{who} {does} {value}.",
        "preference",
        check=kind_of_thing,
    ),
    rule(
        r"i (?:would |'d )?only (?:ever )?want (?P<value>[^,;]+)",
        "wants only",
        "{who} only wants {value}.",
        "preference",
        about="work",
    ),
    rule(
        r"i(?: want| need| expect| would like|'d like|’d like) (?:you|everything|all \w+|"
        r"every \w+) to (?P<value>(?:always|"
        r"never) .+)",
        "rule",
        "{who} wants: {value}.",
        "constraint",
        about="work",
        check=lasts,
    ),
    rule(
        r"i (?P<what>always|never) (?P<value>.+)",
        "{what}",
        "{who}, as a habit: {what} {value}.",
        "preference",
        check=_habit,
    ),
    rule(
        r"i (?:(?:mostly|only|generally|usually|exclusively) )?use (?P<value>[^,;]{2,60}?) (?:for|as) "
        r"(?P<what>[^,;.]{2,60})[.!]?$",
        "uses for {what}",
        "{who} uses {value} for {what}.",
        "environment",
        single=True,
        check=_means,
    ),
)
