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
    is_identifier,
    is_lasting_clause,
    is_liked_thing,
    is_name,
    is_practice,
    is_preferable,
    is_specific,
    is_standing_order,
    is_technique,
)
from consolidator.memory.text.phrasing import FROM_NOW, is_generic


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the fact that it makes of a sentence."""

    name: str
    example: str  # a sentence that it makes a fact of
    pattern: str  # a regular expression with a group `value`
    predicate: str  # may name groups of the pattern
    sentence: str  # a template of {who} or {whom}, {value}, {does}, and groups of the pattern
    kind: str
    _: KW_ONLY
    about: str = "person"  # person | work
    single_valued: bool = False  # whether a later value replaces an earlier one
    check: Callable[[str], bool] = is_generic  # what a value must be; any other is rejected
    whole_sentence: bool = False  # whether the value is the rest of the sentence, and not only its first clause
    project_only: bool = False  # whether it holds in a project alone: elsewhere it is a wish of the moment
    to_agent: bool = False  # whether it tells an agent what to do: people who talk to each other mean something else
    anywhere: bool = False  # whether it may begin within a sentence
    keeps_lead_in: bool = False  # whether the pattern includes the words that lead in ("no, actually ...")
    is_mood: bool = False  # whether at work it is mostly of what is at hand: told from two sessions, or said in general
    case_sensitive: bool = False  # whether capitals mark a name
    regex: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", re.compile(self.pattern, 0 if self.case_sensitive else re.IGNORECASE))


_WORD = r"[^\W\d_][\w'’-]*"
_NAME = r"[A-ZÀ-Þ][\w'’-]+"
_I_AM = r"(?:I'm|I’m|I am|i'm|i’m|i am)"
_IS = r"(?:,? (?:it's|it is|is|which is)|'s|’s|:| is:)"
# Where a value must end: before any other word the sentence says something else ("in Berlin no longer").
_END = r"(?=$|[,;!?()]|\.(?:\s|$)| - | – | — | (?:and|but|if|with|since|because|from|or)\b)"
_LANGUAGES = (
    r"(?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Czech|Russian|Ukrainian|Turkish|Swedish|Danish|"
    r"Norwegian|Finnish|Greek|Hungarian|Romanian|Japanese|Chinese|Korean|Hindi|Arabic|Hebrew|Vietnamese|Thai)"
)
_TIER = r"(?P<value>gold|silver|platinum|bronze|diamond|premium|regular|basic|vip)"
_ADVERBS = r"(?:(?:really|generally|usually|always|much|also|normally|just|absolutely|only) ){0,2}"
_LIKES = r"(?P<what>like|love|hate|dislike|enjoy|can't stand|don't like|do not like)"
_USUALLY = r"(?:(?:all|mostly|only|also|always|generally|usually|now) )?"
_WE_USE = (
    rf"(?:here )?we(?: {_USUALLY}use|(?:'re|’re| are) (?:now )?using|(?:'ve|’ve| have)?(?: just)? "
    r"(?:switched|migrated)(?: over)? to)"
)
_IN_PROJECT = r"(?: (?:here|in (?:this|our) (?:repo(?:sitory)?|project|codebase|app|team)))?"
_SHOULD = r"(?:should|must|need to|have to|shall|are to)"
_ENSURE = r"(?:make sure (?:to|you|that you)|be sure to|it's important to)"
_IN_MEMORY = (
    r"(?:save|store|keep|put|note|write) (?:this |that |it )?(?:in|to|into) (?:your |the )?memory"
    r"(?=(?: to| that)?[,:]? (?:please )?(?:always|never|not|no|don't|do not|only)\b)(?: to| that)?"
)
_PROJECT = (
    r"(?:project|repo|repository|codebase|app|application|package|service|backend|frontend|api|site|library|team)"
)
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
         rf"{_DENIAL}(?:actually,? )?(?:the|our|my) (?!{_AT_HAND} )(?P<what>[\w -]{{2,40}}?) (?:is|are) "
         r"(?:actually |really |called |named |now )?(?!(?:not|wrong|still|failing|broken|missing|too|"
         r"also)\b)(?P<value>.+)",
         "{what}", "The {what} is {value}.", "project",
         about="work", single_valued=True, project_only=True, keeps_lead_in=True, check=is_specific),
    Rule("contradicted", "No, it's 5433, not 5432.",
         r"(?:(?:no|nope|actually)[,.:;! –-]+)?(?:it's|it’s|it is|that's|that is|they're) "
         r"(?:(?P<called>called |named |spelled )|(?=(?-i:[^,;]*[A-Z\d`./_])))(?P<value>[^,;]{2,40}?)"
         r",? not (?P<other>[^,;.]{2,40})[.!]?$",
         "not {other}", "It is {called}{value}, not {other}.", "project",
         about="work", project_only=True, keeps_lead_in=True, check=is_technique),
    # Who a person is
    Rule("name", "My name is Priya Raman.",
         rf"\b(?:my (?:full |first )?name{_IS}|(?:^|you can |just |please )call me)\s+(?P<value>{_WORD}(?: "
         rf"{_WORD}){{0,3}}?)(?=$|[,;!?(]|\.(?:\s|$)| and | but | from now| - )",
         "name", "The name of {whom} is {value}.", "profile", single_valued=True, anywhere=True, check=is_name),
    Rule("introduction", "I'm Kwame Mensah, we spoke last week.",
         rf"{_I_AM} (?P<value>{_NAME} {_NAME}(?: {_NAME})?)(?=$|[,;.!?]| from | and | here\b)",
         "name", "The name of {whom} is {value}.", "profile", single_valued=True, case_sensitive=True, check=is_name),
    Rule("user id", "My user ID is lena_hoff_2291.",
         rf"(?:\bmy (?:user ?(?:id|name)|id)(?: number)?(?:{_IS}|,| should be)?\s+|^i(?:'m|’m| am) "
         rf"(?=[a-z]+_\w+_\d+{_END}))"
         r"(?P<value>[\w.@+-]{0,63}?[\d_@][\w.@+-]{0,63})(?<![.-])(?!['’]?\w| friend)",
         "user id", "The user ID of {whom} is {value}.", "profile",
         single_valued=True, anywhere=True, check=is_identifier),
    Rule("email", "My email address is rosa.fuentes@posteo.example.",
         rf"\bmy (?:work |personal |private )?e-?mail(?: address)?(?: on file)?{_IS}\s+"
         r"(?P<value>[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5})",
         "email", "The email address of {whom} is {value}.", "profile",
         single_valued=True, anywhere=True, check=bool),
    Rule("membership", "I'm a bronze member.",
         rf"(?:\bi(?:'m|’m| am|'ve been|’ve been| have been)|^as) an? {_TIER}[ -](?:\w+ )?"
         r"(?:member|customer|subscriber)\b",
         "membership", "{who} is a {value} member.", "profile", single_valued=True, anywhere=True, check=bool),
    Rule("home", "I live in Gothenburg.",
         rf"(?:(?:[Ii] (?:now )?live|{_I_AM} based) in|[Ii](?:'ve|"
         rf" have)?(?: just)? moved to) (?P<value>(?:the )?{_NAME}(?:,? (?!I\b){_NAME}){{0,3}})"
         rf"(?!, (?!I['’])[A-ZÀ-Þ][\w'’-]){_END}",
         "home", "{who} lives in {value}.", "profile", single_valued=True, case_sensitive=True, check=bool),
    Rule("language of answers", "Please answer in French.",
         rf"(?:always )?(?:answer|reply|respond|talk|write|speak)(?: to me)?(?: only)? in (?P<value>{_LANGUAGES})"
         r"(?=$|[,;.!?]| from now| always| please| again)",
         "language of answers", "{who} wants answers in {value}.", "preference",
         to_agent=True, single_valued=True, check=bool),
    # What a person likes
    Rule("prefers", "I prefer window seats.",
         rf"(?:i (?:would )?{_ADVERBS}prefer|my preference is(?: for| to)?) (?P<value>.+)",
         "prefers", "{who} prefers {value}.", "preference", check=is_preferable),
    Rule("favorite", "My favorite color is teal.",
         r"my (?P<what>(?:preferred|favou?rite) [\w -]{2,30}?) (?:is|are) (?P<value>.+)",
         "{what}", "The {what} of {whom} is {value}.", "preference", single_valued=True, check=is_liked_thing),
    Rule("likes", "I really like jazz.",
         rf"i {_ADVERBS}{_LIKES} (?P<value>.+)",
         "{what}", "{who} {does} {value}.", "preference", is_mood=True, check=is_liked_thing),
    Rule("wants only", "I only want bullet points, no paragraphs.",
         r"i (?:would |'d )?only (?:ever )?want (?P<value>[^,;]+)",
         "wants only", "{who} only wants {value}.", "preference", about="work", to_agent=True),
    # How work is to be done
    Rule("remember that", "Please keep in mind that our API has a rate limit of 50 requests per second.",
         r"(?:to )?(?:remember|note(?= that)|keep in mind|bear in mind|don't forget|do not forget|for (?:your )?future "
         r"reference|memori[sz]e|make a note)(?:(?: that(?!,)|:|,| -)(?!\s*let['’]?s\b)\s*| (?=(?:i|we|our|my|you|all|"
         r"every|never|always)\b))(?P<value>.+)",
         "remember", "{value}.", "project", about="work", to_agent=True, whole_sentence=True, check=is_full_clause),
    Rule("from now on", "From now on, use snake_case for column names.",
         rf"(?:{FROM_NOW}|in (?:the )?future(?=,? (?:please|always|never|do|don't|use)\b)|{_IN_MEMORY})[,:]? "
         r"(?:(?:please|i want you to|i'd like you to|you should|you must|let's|we) )?"
         r"(?P<value>(?:always|never|not|don't|do not|use|only|"
         r"(?!(?:i|we|you|it|the|this|could|might|may|will|would|is|are|was)\b)\w+) .+)",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_lasting_clause),
    Rule("next time", "Next time you change the schema, let me run the migration.",
         r"(?P<value>next time(?:,|,? (?:you|we) [^,]{3,60},) (?:please )?"
         r"(?!(?:i|we|you|he|she|they|it|the|this|that|there|what|how|could|might|may|can|will|would|is|are|was)\b)"
         r"\w+ .+)",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_lasting_clause),
    Rule("... from now on", "Use British spelling from now on.",
         rf"(?!(?:i|it|this|that|there)\b)(?P<value>[a-z]\w+ .+?),? {FROM_NOW}[.!]?$",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_lasting_clause),
    Rule("always or never", "Always run the formatter before you commit.",
         rf"(?!we never use\b)(?:(?:(?:you|we|agents?) {_SHOULD}|we|{_ENSURE}|i want you to) )?"
         r"(?P<value>(?:always|never|don't ever|do not ever|never ever) .+|if [^,]{3,80}, (?:then )?(?:please )?"
         r"(?:always|never) .+|(?:every time|each time|whenever) (?:you|we|there) .+?, .+)",
         "rule", "{value}.", "constraint", about="work", to_agent=True, whole_sentence=True, check=is_standing_order),
    Rule("is always or never", "Internal changes are never breaking changes, only those of the configuration are.",
         r"(?P<value>(?:[\w`/.-]+ ){1,5}(?:is|are) (?:always|never) [^,;]+,? "
         r"(?:only|except|unless|even (?:if|when)) .+)",
         "remember", "{value}.", "project", about="work", project_only=True, whole_sentence=True, check=is_full_clause),
    Rule("instead of", "Use logging instead of print.",
         r"(?:we should )?(?P<what>use|prefer) (?P<value>[^,;]{2,60}?)"
         r"(?:,? not |,? instead of |,? rather than |,? over |,? never )(?P<other>(?:[^,;.]|\.(?=\w)){2,60}?)[.!]*$",
         "instead of {other}", "{what} {value} instead of {other}.", "constraint",
         about="work", to_agent=True, single_valued=True, project_only=True, check=is_technique),
    Rule("use as", "Use uv as the package manager.",
         r"(?:please )?use (?P<value>[\w./+-]{1,40}) (?:as|for) (?:the |our |your |a )?(?P<what>(?:[a-z]+ )?(?:manager|"
         r"formatter|linter|runner|bundler|compiler|type checker|task runner))(?: here)?[.!]*$",
         "uses for {what}", "Use {value} as the {what}.", "constraint",
         about="work", to_agent=True, single_valued=True, project_only=True, check=is_technique),
    Rule("not any more", "I do not want to sign my commits anymore.",
         r"i (?:do not|don't|don’t) want (?:you )?to (?P<value>.+?),? (?:any ?more|any longer)[.!]*$",
         "rule", "Do not {value} any more.", "constraint",
         about="work", to_agent=True, whole_sentence=True, project_only=True, check=is_lasting_clause),
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
         rf"(?:this|the|our|my) {_PROJECT} (?P<what>uses|is written in|requires|is built with|targets|depends on) "
         r"(?P<value>.+)",
         "{what}", "The project {what} {value}.", "environment", about="work", project_only=True, check=is_practice),
    Rule("called", "Our test cluster is called vega.",
         rf"{_THING} (?:is|was|has been) (?:now )?(?:called|named|renamed to) (?!(?:twice|once|again|before|after|by|"
         rf"from|when|if|in|with|every|only)\b)(?P<value>.+)",
         "{thing} is called", "{article}{thing} is called {value}.", "environment",
         about="work", to_agent=True, single_valued=True, check=is_name),
    Rule("at", "The staging database lives at db-7.example.",
         rf"{_THING} (?:(?:is|are|lives?|sits?|can be (?:found|reached)|is reachable) (?:now )?at|(?:has |"
         rf"was )?moved to|listens on) (?P<value>.+)",
         "{thing} is at", "{article}{thing} is at {value}.", "environment",
         about="work", to_agent=True, single_valued=True, check=is_specific),
    Rule("on", "The worker runs on Fly.io.",
         rf"{_THING} (?P<what>(?:is|are) (?:now )?on|(?:runs?|is (?:hosted|deployed|published)|lives?) (?:on|with|to|"
         rf"in|under)) (?P<value>.+)",
         "{thing} runs on", "{article}{thing} {what} {value}.", "environment",
         about="work", to_agent=True, single_valued=True, check=is_specific),
    Rule("team attribute", "Our default branch is trunk.",
         rf"(?:our (?P<what>{_ATTRIBUTE})|the (?P<that>{_ATTRIBUTE})(?= (?:is|are) (?:now |called "
         rf")?\S*(?-i:[A-Z\d`./_]))) (?:is|are)(?: now| called)? (?P<value>.+)",
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
