"""The table of rules: the forms in which people state facts in English. `statements` applies it, in this order.

A row reads: name, example, pattern, then what it makes: predicate, sentence and kind of the fact, then its options (see
`Rule`). Each form was met in logs of others, or is one that the documentation names; a form that leaves room for doubt
has no row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from consolidator.memory.facts.value_checks import (
    is_choice,
    is_full_clause,
    is_lasting_clause,
    is_name,
    is_practice,
    is_specific,
    is_standing_order,
)
from consolidator.memory.text.phrasing import FROM_NOW


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the fact that it makes of a sentence."""

    name: str
    example: str  # a sentence that it makes a fact of
    pattern: str  # a regular expression with a group `value`
    predicate: str  # may name groups of the pattern
    sentence: str  # a template of {who} or {whom}, {value}, and groups of the pattern
    kind: str
    _: KW_ONLY
    check: Callable[[str], bool]  # what a value must be; any other is rejected
    about: str = "person"  # person | work
    single_valued: bool = False  # whether a later value replaces an earlier one
    whole_sentence: bool = False  # whether the value is the rest of the sentence, and not only its first clause
    project_only: bool = False  # whether it holds in a project alone: elsewhere it is a wish of the moment
    to_agent: bool = False  # whether it tells an agent what to do: people who talk to each other mean something else
    anywhere: bool = False  # whether it is searched in the whole sentence, words that lead in ("no, ...") included
    regex: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", re.compile(self.pattern, re.IGNORECASE))


_WORD = r"[^\W\d_][\w'’-]*"
_IS = r"(?:,? (?:it's|it is|is|which is)|'s|’s|:| is:)"
_LANGUAGES = (
    r"(?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Czech|Russian|Ukrainian|Turkish|Swedish|Danish|"
    r"Norwegian|Finnish|Greek|Hungarian|Romanian|Japanese|Chinese|Korean|Hindi|Arabic|Hebrew|Vietnamese|Thai)"
)
_ADVERBS = r"(?:(?:really|generally|usually|always|much|also|normally|just|absolutely|only) ){0,2}"
_USUALLY = r"(?:(?:all|mostly|only|also|always|generally|usually|now) )?"
_WE_USE = (
    rf"(?:here )?we(?: {_USUALLY}use|(?:'re|’re| are) (?:now )?using|(?:'ve|’ve| have)?(?: just)? "
    r"(?:switched|migrated)(?: over)? to)"
)
_IN_PROJECT = r"(?: (?:here|in (?:this|our) (?:repo(?:sitory)?|project|codebase|app|team)))?"
_SHOULD = r"(?:should|must|need to|have to|shall|are to)"
_ENSURE = r"(?:make sure (?:to|you|that you)|be sure to|it's important to)"
_ATTRIBUTE = (
    r"(?:tech )?stack|package manager|database|ci|build (?:tool|system)|backend|frontend|default branch|main branch|"
    r"test (?:framework|runner)|style guide|formatter|linter|deploy(?:ment)? target|issue tracker|code style|"
    r"staging (?:url|server|environment)|naming convention|line length|orm|queue|cloud provider"
)
_AT_HAND = (
    r"(?:file|error|problem|issue|bug|test|function|value|thing|question|reason|answer|output|result|line|code|point|"
    r"button|page|section|focus|goal|priority|emphasis|plan|task|work|idea|concern)"
)
# What has a name, an address or a machine: a few words, and no pronoun.
_THING = (
    r"(?!(?:it|this|that|these|those|there|here|what|which|who|if|when|why|how|he|she|they|we|you|i|everything|my|"
    rf"(?:the |our )?(?:[\w-]+ )?{_AT_HAND} (?:is|lives|runs|listens|can))\b)(?P<article>the |our "
    r")?(?P<thing>(?:[\w`/-]+ ){0,3}[\w`/-]+)(?<!\bis)(?<!\bare)(?<!\bwas)(?<!\bwere)(?<!\bbe)"
)
_DENIAL = r"(?:no|nope|wrong|actually|correction|not quite|that's wrong|that's not right|incorrect)[,.:;! –-]+"

RULES = (
    # Corrections of an earlier statement; `endings` ends that one
    Rule("corrected", "Wrong, the port is 8443.",
         rf"^{_DENIAL}(?:actually,? )?(?:the|our|my) (?!{_AT_HAND} )(?P<what>[\w -]{{2,40}}?) (?:is|are) "
         r"(?:actually |really |called |named |now )?(?!(?:not|wrong|still|failing|broken|missing|too|"
         r"also)\b)(?P<value>.+)",
         "{what}", "The {what} is {value}.", "project",
         about="work", single_valued=True, project_only=True, anywhere=True, check=is_specific),
    Rule("contradicted", "No, it's 5433, not 5432.",
         r"(?:(?:no|nope|actually)[,.:;! –-]+)?(?:it's|it’s|it is|that's|that is|they're) "
         r"(?:(?P<called>called |named |spelled )|(?=(?-i:[^,;]*[A-Z\d`./_])))(?P<value>[^,;]{2,40}?)"
         r",? not (?P<other>[^,;.]{2,40})[.!]?$",
         "not {other}", "It is {called}{value}, not {other}.", "project",
         about="work", project_only=True, check=is_practice),
    # Who a person is
    Rule("name", "My name is Priya Raman.",
         rf"\b(?:my (?:full |first )?name{_IS}|(?:^|you can |just |please )call me)\s+(?P<value>{_WORD}(?: "
         rf"{_WORD}){{0,3}}?)"
         r"(?=$|[,;!?(]|\.(?:\s|$)| and | but | from now| - )",
         "name", "The name of {whom} is {value}.", "profile", single_valued=True, anywhere=True, check=is_name),
    Rule("language of answers", "Please answer in French.",
         rf"(?:always )?(?:answer|reply|respond|talk|write|speak)(?: to me)?(?: only)? in (?P<value>{_LANGUAGES})"
         r"(?=$|[,;.!?]| from now| always| please| again)",
         "language of answers", "{who} wants answers in {value}.", "preference",
         to_agent=True, single_valued=True, check=bool),
    Rule("prefers", "I prefer window seats.",
         rf"(?:i (?:would )?{_ADVERBS}prefer|my preference is(?: for| to)?) (?P<value>.+)",
         "prefers", "{who} prefers {value}.", "preference", check=is_choice),
    Rule("favorite", "My favorite color is teal.",
         r"my (?P<what>(?:preferred|favou?rite) [\w -]{2,30}?) (?:is|are) (?P<value>.+)",
         "{what}", "The {what} of {whom} is {value}.", "preference", single_valued=True, check=is_practice),
    # How work is to be done
    Rule("remember that", "Please keep in mind that our API has a rate limit of 50 requests per second.",
         r"(?:to )?(?:remember|note(?= that)|keep in mind|bear in mind|don't forget|do not forget|for (?:your )?future "
         r"reference|memori[sz]e|make a note)(?:(?: that|:|,| -)\s*| (?=(?:i|we|our|my|you|all|every|never|always)\b))"
         r"(?P<value>.+)",
         "remember", "{value}.", "project", about="work", to_agent=True, whole_sentence=True, check=is_full_clause),
    Rule("from now on", "From now on, use snake_case for column names.",
         rf"(?:{FROM_NOW}|in (?:the )?future(?=,? (?:please|always|never|do|don't|use)\b))[,:]? "
         r"(?:(?:please|i want you to|i'd like you to|you should|you must|let's|we) )?"
         r"(?P<value>(?:always|never|don't|do not|use|only|"
         r"(?!(?:i|we|you|it|the|this|could|might|may|will|would|is|are|was)\b)\w+) .+)",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_lasting_clause),
    Rule("... from now on", "Use British spelling from now on.",
         rf"(?!(?:i|it|this|that|there)\b)(?P<value>[a-z]\w+ .+?),? {FROM_NOW}[.!]?$",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_lasting_clause),
    Rule("always or never", "Always run the formatter before you commit.",
         rf"(?!we never use\b)(?:(?:(?:you|we|agents?) {_SHOULD}|we|{_ENSURE}|i want you to) )?"
         r"(?P<value>(?:always|never|don't ever|do not ever|never ever) .+)",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_standing_order),
    Rule("instead of", "Use logging instead of print.",
         r"(?:we should )?(?P<what>use|prefer) (?P<value>[^,;]{2,60}?)"
         r"(?:,? not |,? instead of |,? rather than |,? over |,? never )(?P<other>(?:[^,;.]|\.(?=\w)){2,60}?)[.!]*$",
         "instead of {other}", "{what} {value} instead of {other}.", "constraint",
         about="work", to_agent=True, single_valued=True, project_only=True, check=is_practice),
    # What a project or a team uses
    Rule("does not use", "We don't use Docker.",
         rf"(?:here )?we (?:do not|don't|don’t|never) use (?P<value>.+?){_IN_PROJECT}[.!]*$",
         "does not use", "We do not use {value}.", "environment", about="work", check=is_practice),
    Rule("uses for", "We use Buildkite for CI.",
         rf"{_WE_USE} (?P<value>[^,;]{{2,80}}?) (?:for|as) (?P<what>[^,;.]{{2,60}})[.!]?$",
         "uses for {what}", "We use {value} for {what}.", "environment",
         about="work", single_valued=True, check=is_practice),
    Rule("uses, not", "We use pnpm here, never npm.",
         rf"{_WE_USE} (?P<value>[^,;]{{1,60}}?){_IN_PROJECT},? (?:and )?(?:not|never|no longer|"
         rf"instead of) (?P<other>[^,;]{{1,60}}?){_IN_PROJECT}[.!]*$",
         "uses", "We use {value}, not {other}.", "environment", about="work", check=is_practice),
    Rule("uses", "We use Terraform.",
         rf"{_WE_USE} (?P<value>.+?){_IN_PROJECT}[.!]*$",
         "uses", "We use {value}.", "environment", about="work", check=is_practice),
    Rule("project property", "The backend is written in Elixir.",
         r"(?:this|the|our|my) (?:project|repo|repository|codebase|app|application|package|service|backend|frontend|"
         r"api|site|library|team) (?P<what>uses|is written in|requires|is built with|targets|depends on) (?P<value>.+)",
         "{what}", "The project {what} {value}.", "environment", about="work", project_only=True, check=is_practice),
    Rule("called", "Our test cluster is called vega.",
         rf"{_THING} (?:is|was|has been) (?:now )?(?:called|named|renamed to) (?!(?:twice|once|again|before|after|by|"
         rf"from|when|if|in|with|every|"
         rf"only)\b)(?P<value>.+)",
         "{thing} is called", "{article}{thing} is called {value}.", "environment",
         about="work", to_agent=True, single_valued=True, check=is_name),
    Rule("at", "The staging database lives at db-7.example.",
         rf"{_THING} (?:(?:is|are|lives?|sits?|can be (?:found|reached)|is reachable) (?:now )?at|(?:has |"
         rf"was )?moved to|"
         rf"listens on) "
         r"(?P<value>.+)",
         "{thing} is at", "{article}{thing} is at {value}.", "environment",
         about="work", to_agent=True, single_valued=True, check=is_specific),
    Rule("on", "The worker runs on Fly.io.",
         rf"{_THING} (?P<what>(?:is|are) (?:now )?on|(?:runs?|is (?:hosted|deployed|published)|lives?) (?:on|with|to|"
         rf"in|"
         rf"under)) (?P<value>.+)",
         "{thing} runs on", "{article}{thing} {what} {value}.", "environment",
         about="work", to_agent=True, single_valued=True, check=is_specific),
    Rule("team attribute", "Our default branch is trunk.",
         rf"(?:our (?P<what>{_ATTRIBUTE})|the (?P<that>{_ATTRIBUTE})(?= (?:is|are) (?:now |called "
         rf")?\S*(?-i:[A-Z\d`./_])))"
         r" (?:is|are)(?: now| called)? (?P<value>.+)",
         "{what}{that}", "The {what}{that} is {value}.", "environment",
         about="work", single_valued=True, check=is_practice),
    Rule("team practice", "We deploy to Heroku.",
         r"we (?:now )?(?P<what>(?:deploy|host|run|build|test|ship|release) (?:on|to|with|at|via)) (?P<value>.+)",
         "{what}", "We {what} {value}.", "environment", about="work", check=is_specific),
    # What was decided
    Rule("decided", "We chose to drop IE11 support.",
         r"(?:we(?:'ve| have|’ve)? (?:decided|agreed|settled|opted|chose|chosen)(?: to go)? (?:on|to|for|with|that|"
         r"against)|the decision is(?: to| that)?) (?P<value>.+)",
         "decided", "Decided: {value}.", "decision", about="work", check=is_choice),
)  # fmt: skip
