"""Knows verbs: which form tells a listener what to do. Words are folded; a list of base forms gives all forms."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.memory.text.phrasing import word_set

_BASE = word_set(
    """
    accept achieve act add address admire adopt advise agree allow amend analyse analyze announce answer appear
    apply approve archive arrange arrive ask assign attach attend avoid bake ban become begin believe belong book
    borrow break bring build bump burn buy call cancel care carry celebrate change charge chase check choose clean
    close code collect come comment commit commute compare compile complain complete consider contact contain
    continue convert cook copy count cover create cut cycle dance deal decide define delegate delete deliver deploy
    describe design despise detest develop dislike do document draft draw dream drink drive drop earn eat edit email
    employ encrypt end enforce enjoy ensure enter escape expect explain export express feed feel fetch fill find
    finish fit fix fixup fly fold follow forget format forward generate get give go graduate grow handle hate have
    help hide hike hire hold hope host ignore implement import include increment indent insist inspect install
    introduce invest invite join jump keep knit know label last laugh launch lead learn leave lend let lie like
    limit link lint list listen live load log look lose love maintain make manage mark marry mean measure meet
    mention merge migrate mind mount move name need negotiate never note notify number offer omit open optimise
    optimize order organise organize owe own pack paint park pay phone pick pin place plan plant play post practise
    practice prefer prefix prepare present print promise propose protect provide publish pull push put quote raise
    read rebase receive recommend record refactor refer refuse reject release rely remain remember render rent
    repair repeat reply report request require reside respect respond rest resume retire review ride round run save
    say schedule search see seem select sell send separate serve set settle share ship shop shorten show sign sing
    sit skip sleep smoke sort speak specify spell spend split squash stand start state stay stick stop store
    structure study style suffer suggest summarise summarize supervise support surf swim switch tag take talk teach
    tell tend test thank think
    throw track trade train translate travel treat trim trust try turn type understand update upgrade upload use
    validate verify visit volunteer vote wait wake walk want warn wash watch wear weigh win wish work worry wrap
    write
    """
) - {"never"}
_ALSO_NOUNS = word_set(
    """
    act address answer archive ban book borrow break build burn call care cancel change charge check code comment commit
    copy count cover cut cycle dance deal design document draft draw dream drink drive drop edit email end escape export
    express feed feel fix fit format forward handle help hike hold hope host import insist jump label last laugh launch
    lead lie limit link list load log look mark measure mention merge mind mount move name need note number offer order
    pack paint park pay phone pick pin place plan plant play post prefix present print promise pull push quote raise
    read rebase record release remain report request research respect rest result return review ride round run save
    schedule search set share ship shop show sign sleep smoke sort split stand start state stay stick stop store
    structure study style support surf switch tag talk test track trade train travel treat trust try turn type update
    upgrade upload visit vote wait wake walk wash watch win wish work worry wrap
    """
)
_BASE |= {f"re{verb}" for verb in _BASE} - {"react"}  # "rerun", "reinstall"
_NOT_ORDERS = word_set("like have mean last hope wish love hate want need prefer think believe thank know live do")
_AUXILIARIES = word_set(
    """
    is was are were has had have does did will would can could
    isn't wasn't aren't weren't hasn't hadn't haven't doesn't didn't won't wouldn't can't couldn't
    """
)
_IRREGULAR = word_set(
    """
    went got took made gave said told bought found left lost kept met came saw became began brought built chose drove
    ate fell felt flew forgot grew held knew led lent paid rode ran sang sat sold sent slept spoke spent stood taught
    thought understood woke wore won wrote
    """
)
_LEADS = word_set("please always never just also then do don't dont not now kindly simply only and")
_STRONG_LEADS = word_set("please always never don't dont not kindly")
_NOT_VERBS = word_set("i he she it we they you the a an my his her their our your this that no in on at for to")


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2] not in "aeiou" else f"{verb}s"


_THIRD_PERSON = frozenset(map(_third_person, _BASE))
_NOUN_FORMS = frozenset(map(_third_person, _ALSO_NOUNS)) - {"works", "speaks", "reads", "needs", "drives"}
_SAID_PLAINLY = _AUXILIARIES | _IRREGULAR | (_THIRD_PERSON - _NOUN_FORMS)  # what follows its subject, and no order


def is_base_form(word: str) -> bool:
    """Tell whether a word is a verb as "I", "they" and an order have it."""
    return word in _BASE


def begins_order(words: Sequence[str]) -> int | None:
    """Return the index of the verb of an order that words begin; None where they begin none."""
    index = 0
    while index < len(words) and words[index] in _LEADS:
        index += 1
    if index >= len(words) or words[index] in _NOT_VERBS:
        return None
    leads, verb = words[:index], words[index]
    following = words[index + 1] if index + 1 < len(words) else ""
    if following in _SAID_PLAINLY:
        return None
    is_order = verb in _BASE and (verb not in _NOT_ORDERS or bool(leads) or verb == "prefer")
    is_said_of = following in _NOUN_FORMS or (following.endswith("ed") and len(following) > 4)
    return index if is_order or not (is_said_of or _STRONG_LEADS.isdisjoint(leads)) else None
