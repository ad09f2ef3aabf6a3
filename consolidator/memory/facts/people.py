"""Tells people from things in the words of a statement: whom it may be about, and what it can be about instead.

A subject is a thing only by evidence: its head is a word for things, or it has the form of an identifier, or it is the
session's project. Everything else may be a person, and is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath, PureWindowsPath

from consolidator.memory.facts.orders import fold_for_rules
from consolidator.memory.text.phrasing import word_set

PERSONS_NAMES = frozenset({"user", "the user", "me", "i"})  # how a model calls the person of a session
_PRONOUNS = word_set(
    """
    i me my mine myself we our ours ourselves you your yours yourself he him his himself she her hers herself they them
    their theirs themselves who whom whose someone somebody anyone anybody everyone everybody one's
    ich mich mir mein meine meinen meinem meiner wir uns unser unsere du dich dir dein deine sie ihr ihre ihm ihn er
    je moi mon nous notre nos toi vous votre vos elle lui leur leurs ils elles
    yo mis nosotros nuestro nuestra usted ustedes ella ellos ellas eu meu minha voce seu sua ele ela
    io mio mia noi nostro nostra lei suo loro ik mij mijn wij ons onze jij jouw hij zij haar jag mig mitt
    oss hon hennes deras jeg meg deg hun ham hendes moj moja ona jego jej oni
    я мне меня мой моя мои мы нас наш ты тебя твой вы вас ваш он его она ее они их
    """
)
_ROLES = word_set(
    """
    user users enduser username customer customers consumer client clients owner owners holder holders accountholder
    account accounts member members person persons people human humans individual subscriber subscribers buyer buyers
    seller sellers payer payee beneficiary recipient recipients sender senders guest guests passenger passengers
    traveler traveller visitor resident citizen patient patients employee employees employer boss ceo cto cfo colleague
    colleagues coworker coworkers teammate teammates team staff crew friend friends partner neighbour neighbor kid kids
    admin administrator operator operators developer developers engineer engineers maintainer maintainers author
    authors reviewer supervisor director secretary assistant student teacher doctor nurse lawyer tenant landlord
    mummy mommy mama daddy papa grandma grandpa granny grandad oma opa maman parents children kids
    wife husband spouse fiance fiancee girlfriend boyfriend mother father mom mum dad parents parent son daughter child
    children brother sister sibling siblings uncle aunt cousin nephew niece grandmother grandfather family boy girl man
    woman men women guy lady gentleman mr mrs ms mx dr sir madam persona speaker interlocutor requester caller
    stakeholder company
    nutzer nutzerin benutzer benutzerin anwender kunde kundin kunden besitzer inhaber inhaberin herr frau mann bruder
    schwester mutter vater sohn tochter freund freundin chef chefin kollege kollegin mitarbeiter konto
    utilisateur utilisatrice client cliente proprietaire titulaire monsieur madame mari femme frere soeur mere pere fils
    fille ami amie compte usuario usuaria clientes dueno duena titular senor senora marido mujer esposa hermano hermana
    madre padre hijo hija amigo amiga cuenta utilizador utilizadora proprietario dono dona irmao irma filho filha conta
    utente proprietario titolare signor signora marito moglie fratello sorella figlio figlia amico conto
    gebruiker klant eigenaar meneer mevrouw broer zus zoon dochter vriend anvandare anvandaren kund agare bror syster
    bruker brukeren kunde eier soster kone ektemann bruger brugeren uzytkownik klient wlasciciel pani brat siostra
    zona maz
    """
)
_OWN_ROLES = word_set(
    "user account accounts company team people family compte cuenta konto conta client clients partner"
)
_OWN_RELATIVES = word_set("mum mom mummy mommy mama dad daddy papa grandma grandpa granny grandad oma opa maman")
_RELATIVES = {  # the names of one relative, the English one first
    other: names.split()[0]
    for names in (
        "mother mum mom mummy mommy mama maman mutter mere madre", "father dad daddy papa vater pere padre",
        "parents parent eltern padres", "children child kids kid kinder enfants hijos",
        "wife femme esposa moglie frau", "husband mari marido marito ehemann mann",
        "brother bruder frere hermano fratello",
        "sister schwester soeur hermana sorella", "son sohn fils hijo figlio", "daughter tochter fille hija figlia",
        "grandmother grandma granny oma", "grandfather grandpa grandad opa", "boss chef chefin",
        "friend freund freundin ami amie amigo amiga amico", "colleague coworker kollege kollegin",
        "customer kunde kundin", "neighbour neighbor nachbar nachbarin",
    )
    for other in names.split()
}  # fmt: skip
_STEMS = re.compile(  # of scripts and languages in which a word has many forms, or no spaces around it
    r"пользовател|клиент|владел|заказчик|покупател|жена|жены|брат|сестр|друг(?:а|у|ом)?\b|"
    r"用户|用戶|客户|客戶|顾客|顧客|主人|账户|帳戶|我|你|您|他|她|ユーザ|利用者|お客|私|僕|彼|持ち主|사용자|고객|회원|주인|나는|내가|그는|그녀|"
    r"المستخدم|العميل|الزبون|صاحب|مالك|משתמש|לקוח|बीबी|उपयोगकर्ता|ग्राहक|χρηστη|πελατη|kullanici|musteri|pengguna|pelanggan|"
    r"nguoi dung|khach hang|kayttaja|asiakas|felhasznalo|ugyfel|utilizator|uzivatel|zakaznik|korisnik"
)
# What only people do, have or are.
_OF_PEOPLE = re.compile(
    r"\b(?:prefer(?:s|red|ences?)?|wants?|wanted|wish(?:es|ed)?|likes?|liked|dislikes?|loves?|loved|hates?|hated|enjoys?|"
    r"lives|lived|living|resides?|resident|residence|moved|believes?|thinks?|feels?|hopes?|plans|intends?|asked|told|"
    r"said|says|married|divorced|engaged|pregnan\w*|allerg\w*|diagnos\w*|illness|disease|medical|medication|therapy|"
    r"birthday|birth|born|aged|salary|wages?|income|debts?|owes?|owed|loan|mortgage|passport|iban|bank|credit card|"
    r"debit card|ssn|social security|phone number|mobile number|telephone|home address|street address|postal address|"
    r"billing address|religio\w*|politic\w*|vegetarian|vegan|hobb\w+|favou?rites?|surname|first name|last name|"
    r"full name|nickname|nationality|ethnic\w*|gender|sexual\w*|bevorzugt|wohnt|lebt|heisst|prefere\w*|vive|habite|"
    r"prefiere\w*|abita|woont|bor|mieszka)\b"
)
_POSSESSIVE = re.compile(r"(?<![\w'’-])([^\W\d_]+)['’]s\b")
_OF_NOBODY = word_set("it that what there here let where how when this today tomorrow world")
_CAPITAL_I = re.compile(r"(?<![\w/@.'’-])I(?![\w/.-])")
_THINGS = word_set(
    """
    server servers host hosts hostname machine machines computer cluster clusters node nodes pod pods container
    containers image images database databases db schema table tables column columns index indexes view migration
    migrations queue queues cache bucket disk disks volume volumes partition filesystem storage file files directory
    folder path repository repo branch branches commit project codebase monorepo code source package packages module
    modules library libraries framework dependency dependencies compiler interpreter runtime tool tools toolchain cli
    command script scripts build builds pipeline pipelines ci workflow job jobs test tests suite linter formatter
    typechecker api apis endpoint endpoints route service services daemon process application app website site webpage
    page url uri domain dns proxy gateway firewall network subnet interface port ports socket protocol certificate tls
    ssl backup backups log logs os system kernel distribution distro cpu cpus gpu gpus core cores memory ram device
    board sensor driver drivers firmware bios version release model dataset environment staging production prod
    development sandbox platform cloud region zone instance vm license licence format encoding charset locale timezone
    limit limits quota timeout rate latency throughput size retention flight route catalog catalogue warehouse
    inventory documentation docs readme changelog manifest config configuration setting settings flag variable parameter
    option header payload request response webhook topic stream shard replica primary standby cronjob crontab scheduler
    worker workers registry mirror plugin extension editor ide terminal shell browser engine sdk orm parser lexer
    language grammar syntax class function method type struct enum constant exporter dashboard metric metrics alert
    remote remotes origin upstream channel monitor board printer camera router switch robot vehicle building
    """
)
_VERSION = r"[\"']?[\s:=/@-]{1,3}[\"']?(?:[\^~]|[<>=~]=)?(?:version |v)?\d+(?:\.\d+)+"
# What a session works on, and where it runs: words that mean just these where one of its own calls shows them.
_SESSIONS_OWN = word_set(
    """
    project repository repo codebase monorepo workspace worktree checkout machine computer system os environment host
    shell terminal platform distribution distro kernel
    """
)
_SESSIONS_OWN_ADJECTIVES = word_set("operating current local this working git host development dev linux build")
_IDENTIFIER = re.compile(
    r"[\w.+-]*/[\w./+-]+|[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*[-_]?\d+|[a-z0-9]+(?:-[a-z0-9]+)+|\w+(?:\.[a-z]{1,4})+|[A-Z]{2,6}\d*"
    r"|(?!Mc|Mac|De|Di|Du|La|Le|Van|Von|O)[A-Z][a-z]+[A-Z]\w*"
)
_SETTING = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+")
_PERSONS_IDENTIFIER = re.compile(r".*@.*|[a-z]+[._][a-z]+[._-]?\d*|[a-z]+[._][a-z]+[._]\w*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['’]s)?")
_PLAIN_WORD = re.compile(r"(?<![\w./@-])[A-Za-z]{2,}(?![\w/@-])")
_SPACED_LETTERS = re.compile(r"(?:\b[A-Za-z]\b[\s._*-]+){4}")
_FUNCTION_WORDS = word_set(
    "the is are was were of on at for with by from and has have had an this that its it as per to not uses runs"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def name_tokens(names: Iterable[str | None]) -> frozenset[str]:
    """Return the folded words of people's names, such as those of a peer or a speaker."""
    tokens: set[str] = set()
    for name in names:
        tokens.update(word for word in _words(name or "") if len(word) > 1)
    return frozenset(tokens - {"and"} - _THINGS)


def mentions_person(text: str, known: frozenset[str]) -> bool:
    """Tell whether a text speaks of a person: a known one, or anybody by pronoun, role, or what only people do."""
    folded = fold_for_rules(_CAMEL.sub(" ", text).replace("_", " "))
    words = set(_words(folded))
    people = (_PRONOUNS | _ROLES | known) - {"i"}
    owners = {owner.casefold() for owner in _POSSESSIVE.findall(text)} - _OF_NOBODY - _THINGS
    return bool(
        words & people or owners or _CAPITAL_I.search(text) or _STEMS.search(folded) or _OF_PEOPLE.search(folded)
    )


def is_thing(subject: str, known: frozenset[str], project: str | None, context: str) -> bool:
    """Tell whether a subject is a thing of the world or the project; `context`: the sentence that speaks of it."""
    if mentions_person(subject, known):
        return False
    name = subject.strip().removeprefix("the ").removeprefix("The ")
    if is_project(name, project) or has_thing_word(subject):
        return True
    tokens = name.split()
    if tokens and all(_IDENTIFIER.fullmatch(token) and not _PERSONS_IDENTIFIER.fullmatch(token) for token in tokens):
        return True
    return re.search(rf"\b{re.escape(name)}{_VERSION}", context, re.IGNORECASE) is not None


def has_thing_word(text: str) -> bool:
    """Tell whether a text has a word for things."""
    return not _THINGS.isdisjoint(_words(text))


def thing_words(text: str) -> frozenset[str]:
    """Return the words for things in a text."""
    return _THINGS.intersection(_words(text))


def is_project(subject: str, project: str | None) -> bool:
    """Tell whether a subject is the name or the path of a project."""
    return project is not None and subject.strip().casefold() in {name.casefold() for name in _project_names(project)}


def is_sessions_own(subject: str) -> bool:
    """Tell whether a subject is what a session works on or where it runs, by its kind alone: "the operating system"."""
    words = _words(subject.strip().removeprefix("the ").removeprefix("The "))
    return bool(words) and words[-1] in _SESSIONS_OWN and _SESSIONS_OWN_ADJECTIVES.issuperset(words[:-1])


def is_named_setting(subject: str, heading: str, call: str) -> bool:
    """Tell whether a subject is whose settings a file holds, or one of them ("ruff line-length").

    `heading` is that of the file's section ("[tool.ruff]"), `call` the one that showed the file: they name it. A
    heading without a word for things may be a person's.
    """
    *owners, last = subject.strip().removeprefix("the ").split() or [""]
    section = set(_words(heading)) if has_thing_word(heading) else set()
    if not owners:
        return last.islower() and last in section
    return _SETTING.fullmatch(last) is not None and section.union(_words(call)).issuperset(owners)


def is_kin(word: str) -> bool:
    """Tell whether a folded word is a relative or another person by their role, one or several."""
    return (word in _ROLES or word.removesuffix("s") in _ROLES) and word not in _OWN_ROLES


def is_own_relative(word: str) -> bool:
    """Tell whether a folded word alone means a relative of who says it, as "Mum" does."""
    return word in _OWN_RELATIVES


def relative_name(word: str) -> str:
    """Return the English name of a relative; any other folded word itself."""
    return _RELATIVES.get(word, word)


def is_thing_word(word: str) -> bool:
    """Tell whether a folded word is one for things."""
    return word in _THINGS


def is_readable(sentence: str) -> bool:
    """Tell whether the lists of this module can read a sentence: it is English, or hardly more than names of things.

    In another language a person may be spoken of by words that no list has.
    """
    words = [word for word in _PLAIN_WORD.findall(sentence) if not word.isupper()]
    known = {word.casefold() for word in words}
    things = sum(word.casefold() in _THINGS for word in words)
    if _SPACED_LETTERS.search(sentence) or any(char.isalpha() and not char.isascii() for char in sentence):
        return False
    return len(words) < 3 or 2 * things >= len(words) or bool(known & _FUNCTION_WORDS)


def mixes_scripts(text: str) -> bool:
    """Tell whether a word has letters of Latin and of a script that looks like it: nobody writes so but to deceive."""
    return any(
        re.search(r"[A-Za-z]", word) and re.search("[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff]", word)
        for word in re.findall(r"\w+", text)
    )


def _project_names(project: str) -> set[str]:
    return {project, PurePosixPath(project).name, PureWindowsPath(project).name} - {""}


def _words(text: str) -> list[str]:
    return _WORD.findall(fold_for_rules(_CAMEL.sub(" ", text).replace("_", " ")))
