"""Parts of regular expressions that several rules share; `rules` puts them together."""

from __future__ import annotations

WORD = r"[^\W\d_][\w'’-]*"
CAPITALISED = r"[A-ZÀ-Þ][\w'’-]+"
I_AM = r"(?:I'm|I’m|I am|i'm|i’m|i am)"
IS = r"(?:,? (?:it's|it is|is|which is)|'s|’s|:| is:)"

# Where a value must end: before any other word the sentence says something else ("a doctor's assistant", "in Berlin no
# longer").
_END = r"(?=$|[,;!?()]|\.(?:\s|$)| - | – | — | (?:and|but|{})\b)"
END_OF_VALUE = _END.format("if")
END_OF_PLACE = r"(?!, (?!I['’])[A-ZÀ-Þ][\w'’-])" + _END.format("with|since|because|now|near|at|for")
END_OF_EMPLOYER = _END.format("as|in|with|since|because|on|now")
END_OF_ROLE = _END.format(
    "at|in|of|for|from|with|by|on|who|working|based|living|here|now|since|because|so|trying|looking"
)

LANGUAGE = (
    r"(?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Czech|Russian|Ukrainian|Turkish|Swedish|"
    r"Norwegian|Danish|Finnish|Greek|Hungarian|Romanian|Japanese|Chinese|Mandarin|Korean|Hindi|Arabic|Hebrew|"
    r"Vietnamese|Thai|Indonesian)"
)
ROLE = (
    r"(?:(?!bit|little|lot|huge|big|few|couple)\w+[ -]){0,3}(?:developer|engineer|designer|student|teacher|doctor|"
    r"nurse|lawyer|scientist|researcher|professor|writer|journalist|accountant|architect|analyst|consultant|founder|"
    r"freelancer|physicist|mathematician|economist|programmer|sysadmin|maintainer|vegetarian|vegan|product manager|"
    r"project manager)"
)
RELATIVE = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|son|daughter|mother|father|mom|dad|brother|sister|dog|cat|boss|"
    r"manager|assistant|cofounder|co-founder|roommate)"
)
TIER = r"(?P<value>gold|silver|platinum|bronze|diamond|premium|regular|basic|vip)"

ADVERBS = (
    r"(?:(?:really|strongly|generally|usually|always|much|personally|definitely|also|normally|typically|absolutely|"
    r"very much|just) ){0,2}"
)
LIKES = r"(?P<what>like|love|hate|dislike|enjoy|can't stand|don't like|do not like)"
USUALLY = r"(?:(?:all|mostly|only|also|always|generally|usually|exclusively) )?"

FROM_NOW = r"(?:from now on|from here on(?: out)?|going forward|henceforth)"
LASTING_ORDER = (
    r"(?:always|never|don't|do not|use|only|(?!(?:i|we|you|it|the|this|could|might|may|will|would|is|are|was)\b)\w+) .+"
)
SHOULD = r"(?:should|must|need to|have to|shall|are to)"
ENSURE = r"(?:make sure to|make sure you|make sure that you|be sure to|it's important to)"
FORBIDDEN_VERB = (
    r"use|write|create|commit|push|run|touch|edit|modify|delete|install|start|mock|generate|put|ask|assume|guess|add|"
    r"apologi[sz]e|explain|summari[sz]e|send|format|rename|amend|force|merge|open|deploy|log|comment|hardcode|"
    r"hard-code|swallow|call|leave"
)
DENIAL = r"(?:no|nope|wrong|actually|correction|not quite|that's wrong|that's not right|incorrect)[,.:;! –-]+"

ORDER_VERB = (
    r"(?:just |always )?(?:use|prefer|write|put|keep|return|call|make|name|add|run|import|commit|log|throw|raise)"
)
MANNER_OF_WORK = (  # of what an agent makes, and how each of them is to be
    r"(?:(?:short|shorter|brief|concise|terse|small|smaller|plain|simple|detailed|complete|full|honest|direct|"
    r"descriptive|"
    r"atomic)(?:,? (?:and )?)){1,3}(?:answers|replies|responses|explanations|summaries|messages|commit messages|"
    r"commits|"
    r"diffs|pull requests|prs|functions|names|sentences|comments)"
)
IN_PROJECT = r"(?: (?:here|in (?:this|our) (?:repo(?:sitory)?|project|codebase|code base|app|team)))?"
_NO_PRONOUN = (
    r"(?!(?:i|you|we|it|this|that|these|those|they|he|she|there|here|what|which|who|if|when|why|how|then|so|and|but|or|"
    r"maybe|perhaps|because|since|agents?|one|everything|something|nothing|yes|always|sometimes|thanks|others|lots|"
    r"also)\b)"
)
NOT_PERFECT = r"(?!have (?:been|\w+(?:ed|en)|come|gone|got|had|lost|made|run)\b)"  # not "must have failed"
ANY_SUBJECT = rf"(?:there|{_NO_PRONOUN}[\w`'./ -]{{2,60}}?)"
# Of a kind of thing: "every endpoint must", "commit messages must"; "the button must" is a task.
MUST_OF_KIND = (
    rf"(?:{_NO_PRONOUN}(?:all|every|each|any|no) (?:[\w`-]+ ){{1,5}}?"
    r"(?:must(?: not)?|ha(?:ve|s) to|needs? to|needs?(?= an? ))|"
    rf"{_NO_PRONOUN}(?!(?:the|my|your|our|an?|his|her|their|some|both)\b)(?:[\w`-]+ ){{0,4}}?\w{{2,}}(?<![sui])s "
    r"(?:must|shall)(?: not)?)"
)
THING_AT_HAND = (
    r"(?:file|error|problem|issue|bug|test|function|value|thing|question|reason|answer|output|result|line|code|point)"
)

PROJECT = (
    r"(?:project|repo|repository|codebase|app|application|package|service|backend|frontend|api|site|team|product|"
    r"library)"
)
TEAM_ATTRIBUTE = (
    r"(?:tech )?stack|package manager|database|ci|build (?:tool|system)|backend|frontend|default branch|main branch|"
    r"test (?:framework|runner)|style guide|formatter|linter|deploy(?:ment)? target|issue tracker|code style|"
    r"staging (?:url|server|environment)|naming convention|line length|orm|queue|cloud provider"
)
OPERATING_SYSTEM = (
    r"(?:macOS|Mac|Windows|Linux|Ubuntu|Debian|Fedora|Arch|NixOS|WSL2?|Alpine)\b"
    r"(?: (?:\d[\w.]*|Linux|Server|Sonoma|Sequoia|Ventura|Tahoe))*"
)
