"""Knows verbs: which words tell a listener what to do. Words are folded."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.memory.text.phrasing import word_set

_BASE = word_set(
    """
    accept achieve act add address admire adopt advise agree allow amend announce answer apologize appear apply
    approve archive arrange arrive ask assign assume attach attend avoid bake ban become begin believe belong book
    borrow break bring build burn buy bypass cache call cancel care carry catch celebrate change charge chase check
    choose cite clean close code collect come comment commit commute compare compile complain complete consider
    contact contain continue convert cook copy count cover create cut cycle dance deal decide define delete deliver
    deploy describe design despise detest develop disable dislike do document draft draw dream drink drive drop earn
    eat edit email employ enable encrypt end enjoy ensure enter escape expect explain export express feed feel fetch
    fill find finish fit fix fly follow force forget format forward generate get give go graduate grow guess handle
    hardcode hate have help hide hike hire hold hope host ignore import include indent insist inspect install
    introduce invest invite join jump keep knit know label last laugh launch lead learn leave lend let lie like
    limit link lint list listen live load log look lose love maintain make manage mark marry mean measure meet
    mention merge migrate mind mock mount move name need negotiate note notify number offer omit open optimise
    optimize order organise organize owe own pack paint park pay phone pick pin place plan plant play post practice
    practise prefer prefix prepare present print promise propose protect provide publish pull push put quote raise
    read rebase receive recommend record refactor refer refuse reject release rely remain remember remind remove
    rename render rent repair repeat replace reply report request require research reside respect respond rest
    restart resume retire return reuse review ride round run save say schedule search see seem select sell send
    separate serve set settle share ship shop shorten show sign sing sit skip sleep smoke sort speak specify spell
    spend split squash stand start state stay stick stop store structure study style suffer suggest summarise
    summarize supervise support surf swim switch tag take talk teach tell tend test thank think throw touch track
    trade train translate travel treat trim trust try turn type understand update upgrade upload use validate verify
    visit volunteer vote wait wake walk want warn wash watch wear weigh win wish work worry wrap write
    """
)
_NOT_ORDERS = word_set("like have mean last hope wish love hate want need prefer think believe thank know live do")
_LEADS = word_set("please always never just also then do don't dont not now kindly simply only and")


def is_base_form(word: str) -> bool:
    """Tell whether a word is a verb as "I", "they" and an order have it."""
    return word in _BASE


def begins_order(words: Sequence[str]) -> bool:
    """Tell whether words tell a listener what to do: they begin with a verb, after "please", "always" and the like."""
    leads = next((n for n, word in enumerate(words) if word not in _LEADS), len(words))
    verb = words[leads] if leads < len(words) else ""
    return verb in _BASE and verb not in _NOT_ORDERS
