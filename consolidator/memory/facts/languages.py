"""Reads the orders and standing wishes of languages other than English by their markers; nothing is translated.

Each language is a row of two tables. A sentence is read clause by clause, and a clause is kept whole, in its own words.
A clause that asks, that points at what is at hand, or that looks pasted says nothing that lasts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from consolidator.memory.facts.instructions import says_enough
from consolidator.memory.text.phrasing import is_foreign, strip_punctuation
from consolidator.memory.text.similarity import FOREIGN_DENIAL
from consolidator.memory.text.words import has_unspaced

_MIN_CHARS, _MAX_CHARS, _MAX_ORDER_CHARS = 4, 200, 80
_CLAUSE = re.compile(r"(?:(?!\s\(?\d[.)]\s)[^;；。！!？?])+[？?]*")
_LEAD_IN = re.compile(  # numbers, and words that only lead into what is said
    r"\s*(?:\(?\d[.)]\s*)?(?:(?:[没沒]錯|没错|好的?|对了|對了|[对對]|另外|所以|然[后後]|[并並]且|[还還]有|但是?|了解|"
    r"なお|また|あと|それと|ok(?:ay)?)[\s,，、]*)*",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"[\s,，、]*(?:[谢謝]{2}|感[谢謝]|多[谢謝]|ありがとう\w*|감사합니다|고마워\w*|спасибо|gracias|obrigad[oa]|danke|merci|"
    r"thanks?|thx|(?:por favor|bitte|s'il (?:te|vous) pla[iî]t|пожалуйста))[\s,，、.。!！]*$",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"「[^」]*」|『[^』]*』|“[^”]*”|„[^“”]*[“”]|«[^»]*»|\"[^\"]*\"|`[^`]*`")
_NOT_SAID = re.compile(
    r"[「」『』“”„«»\"`→⇒⚠✅│┌└|]|\*\*|[:：]\s*\d*$|://|\S+@\S+ |\$ "
)  # of a quotation cut in two, or pasted


_Kind = Literal["answers", "standing", "order"]
_KINDS: tuple[_Kind, ...] = ("answers", "standing", "order")  # what a clause is first that two languages read


@dataclass(frozen=True, slots=True)
class ForeignOrder:
    """A clause that tells the agent what to do, in the words of its writer."""

    clause: str
    kind: _Kind  # in which language answers are wanted, an order that says that it lasts, or one of its task
    language: str = ""  # of answers


_FINITE = (
    "muss|musst|müssen|kann|kannst|können|soll|sollen|will|wollen|wird|werden|darf|dürfen|hat|haben|"
    "ich|wir|man|приходится|могут|может"
)


class _Language:
    """How a language orders: what orders, what says that it lasts, and what asks or points."""

    def __init__(self, *, order: str, standing: str, answers: str, not_lasting: str, is_distinct: bool = False) -> None:
        self.is_distinct = is_distinct  # whether its verbs are no words of English
        self.order, self.standing = re.compile(order, re.IGNORECASE), re.compile(standing, re.IGNORECASE)
        self.answers, self.not_lasting = re.compile(answers, re.IGNORECASE), re.compile(not_lasting, re.IGNORECASE)


def _spaced(
    *,
    please: str,
    always: str,
    deny: str,
    verbs: str,
    answers: str,
    at_hand: str,
    last: str = "(?!)",
    is_distinct: bool = False,
) -> _Language:
    """Return a language whose orders begin with a verb; `last`: verbs that end one after `always`."""
    verb, polite = rf"(?:(?:{deny})\s?)?(?:{verbs})\b", rf"(?:(?:{please}),?\s)?"
    return _Language(
        order=rf"^{polite}{verb}",
        standing=rf"^{polite}(?:(?:{always}),?\s{polite}(?:{verb}|(?:(?!\b(?:{_FINITE})\b)[^,])+\s(?:{last})(?=$|,))"
        rf"|{verb}(?:\s\S+){{0,2}}?\s(?:{always})\b)",
        answers=rf"^{polite}(?:(?:{always}),?\s)?{answers}(?=$|,|\s(?:{always}|{please}|y|e|und|et|и)\b)",
        not_lasting=rf"[?？]|\b(?:{at_hand})\b",
        is_distinct=is_distinct,
    )


_DENIED = re.compile(rf"{FOREIGN_DENIAL}|するな|절대|\b(?:no|ne)\b|\bn'", re.IGNORECASE)
_ZH_PLEASE = r"(?<![申邀恳懇聘])[请請](?![问問教求假帖柬客示])"
_ZH_DENY = r"(?<![分区區级級类類性特个個])[别別](?![人的处處名针針墅扭])"
_JA_REASON = r"(?!.*(?:ので|のに|ため|から|けど|エラー))"  # what is wrong now, not what is wanted from now on
_KO_REASON = r"(?!.*(?:니까|어서|아서|므로|는데|지만|행복|건강))"
_JA_END = r"(?:[てで](?:くだ|下)さい|[てで](?:ほ|欲)しい(?:です)?|しないで|するな|すること|お願い(?:いた)?します)$"
_KO_END = r"(?:세요|십시오|해\s?줘|해라|하지\s?마|말\s?것|할\s?것)$"
_UNSPACED = {  # by the signs that no other has
    re.compile("[\u3041-\u30ff]"): _Language(  # Japanese
        order=_JA_END,
        standing=rf"^(?:今後は?|これからは|以後は?|以降は|次回からは?)[、も]?(?![のど]).*{_JA_END}"
        rf"|^{_JA_REASON}(?:[^、]*[はをも]、?)?(?:常に|毎回|いつも|絶対に?|決して)(?!.*ように).*{_JA_END}",
        answers=r"^(?:今後は?|これからは|以降は?|常に|必ず|(?P<first>(?:回答|返答|返信|応答)は)|、)*"
        rf"(?P<value>日本語|英語|中国語|韓国語)(?:だけ)?で(?(first)|(?:回答|返答|返信|答え|応答)).*{_JA_END}",
        not_lasting=r"[?？]|か$|教えて|ありがと|ユーザー|お客|彼|[こそあ]の|これ(?!から)|それ|ここ|上記|以下|下記|今回|さっき|先ほど|現在|今日|"
        r"今の|次の|もう一度|再度|引き続き",
    ),
    re.compile("[\uac00-\ud7af]"): _Language(  # Korean
        order=_KO_END,
        standing=rf"^{_KO_REASON}(?:(?:앞으로는?|이제부터는?)\s|(?:.*\s)?(?:항상|언제나|매번|절대로?)\s).*{_KO_END}",
        answers=rf"^(?:앞으로는?\s|항상\s)*(?P<value>한국어|영어|일본어|중국어)로만?\s?(?:대답|답변|답|응답).*{_KO_END}",
        not_lasting=r"[?？]|까요|알려|사용자|고객|설명해|(?:^|\s)[이그저]\s|이것|그것|이번|방금|위의|아래|지금|오늘|다시|계속",
    ),
    re.compile(""): _Language(  # Chinese
        order=rf"{_ZH_PLEASE}|麻[烦煩][你您]|[帮幫]我|[记記]得(?:要|不|[帮幫]|把|先|[更修]|用|每)|[务務]必"
        r"|[时時后後]候?[^,，、]{0,4}(?:提醒|通知)我"
        rf"|(?:^|[,，、])\s*(?:不要|不准|不得|禁止|{_ZH_DENY})",
        standing=r"^(?:[请請你您我希望]{0,3})?(?:(?:以|今|往)[后後]|[从從](?:[现現]在|今)(?:起|[开開]始|以[后後]))(?!再)"
        rf"(?!.*(?:可以|不用))(?:(?=.*(?:{_ZH_PLEASE}|都|{_ZH_DENY}|不要|[帮幫]我|必[须須]|一律|[记記]得))"
        r"|[,，\s]*[只改]?使?用(?![到得上不]))"
        r"|(?:^|[请請你要])(?:永[远遠]|一律|(?<!^)[总總]是)(?:不?要|[别別]|使?用|先)|一律(?:要|使?用)"
        rf"|每(?:一?次|[当當]).*(?:{_ZH_PLEASE}|[你您][^,，]{{0,4}}要|必[须須]|[帮幫]我|[记記]得|不要|要先|(?<=前)都?要(?!等))"
        rf"|^之[后後].*都(?:{_ZH_PLEASE}|要|[帮幫]我|必[须須])",
        answers=r"(?:^|[,，、]\s*)(?:[请請您你都也]|以[后後]|接下[来來]|一律|(?P<first>回[答复覆復][^,，用]{0,3}))*"
        r"用(?P<value>(?:[繁简簡][体體]|正[体體])?(?:中|英|日|[韩韓]|法|德)文|[英日][语語])"
        r"(?(first)|[来來]?(?:回[答复覆復应應]|答[复覆])(?=$|[我,，、吧]))",
        not_lasting=r"[?？]|[吗嗎呢]$|用[户戶]|客[户戶]|他(?!的)|我每|是不是|有[没沒]有|能不能|要不要|可不可以|可否|能否|[请請][问問]|什[么麼]|怎[么麼]|"
        r"哪|如何|告[诉訴]我|[这這](?![边邊])|那(?![边邊就麼么])|[刚剛]|上述|以下|[上下前]面|今天|明天|目前|此(?!外)|"
        r"(?<![从從])[现現]在|[暂暫][时時]|[会會]|可能|[继繼][续續]|重新|再[找试試次做]",
    ),
}
_SPACED = (
    _spaced(  # Spanish
        please=r"por favor",
        always=r"siempre|nunca|jam[aá]s|a partir de ahora|de ahora en adelante|cada vez que \w[^,]*",
        deny=r"no|nunca",
        verbs=r"haz|pon|(?<!nunca )(?<!jamás )(?<!no )(?:usa|utiliza|ejecuta|escribe|comprueba|revisa|verifica|"
        r"pregunta|responde)|hagas?|pongas?|uses?|utilices?|ejecutes?|escribas?|crees?|añadas?|borres?|"
        r"elimines?|compruebes?|"
        r"revises?|verifiques?|preguntes?|respondas?|subas?|cambies?|modifiques?|muestres?|toques?|dejes?",
        answers=r"(?:respond[ea]|contest[ae])(?:me)?(?: siempre)?(?: s[oó]lo)? en (?P<value>español|castellano|inglés)",
        at_hand=r"(?:como|de) (?:siempre|nunca)|usuari[oa]s?|clientes?|est[eao]s?|es[eao]s?|eso|aqu[ií]|ahora mismo|"
        r"hoy|todav[ií]a|otra vez",
    ),
    _spaced(  # Portuguese
        please=r"por favor",
        always=r"sempre|nunca|jamais|a partir de agora|daqui (?:em|pra|para a) (?:diante|frente)|toda vez que \w[^,]*",
        deny=r"não|nao|nunca",
        verbs=r"use|utilize|execute|rode|escreva|faça|crie|coloque|adicione|apague|remova|verifique|revise|pergunte|"
        r"responda|mostre|mude|altere|mexa|commite",
        answers=r"respond[ae](?:-me)?(?: sempre)?(?: (?:só|apenas))? em (?P<value>português(?: do Brasil)?|inglês)",
        at_hand=r"(?:como|de) sempre|usuári[oa]s?|clientes?|est[eao]s?|ess[ea]s?|isso|isto|aqui|agora mesmo|hoje|"
        r"ainda|de novo",
    ),
    _spaced(  # German
        is_distinct=True,
        please=r"bitte",
        always=r"immer(?! noch| wieder| wenn)|nie(?:mals)?|ab (?:jetzt|sofort)(?: (?:immer|nur noch))?|künftig|"
        r"in Zukunft|grundsätzlich|jedes Mal,? wenn [^,]+",
        deny=r"nie|keine?",
        verbs=r"(?:verwende|nutze|benutze|nimm|schreibe?|führe|lass|mache?|frage?|prüfe|teste|lösche|ändere|"
        r"committe|pushe|starte|erstelle|zeige?|antworte|sprich|halte|achte)(?! (?:ich|wir)\b)",
        last=r"verwenden|nutzen|benutzen|nehmen|schreiben|ausführen|laufen lassen|machen|fragen|prüfen|testen|löschen|"
        r"ändern|committen|pushen|starten|erstellen|zeigen|antworten|anlegen",
        answers=r"(?P<verb>antworte(?: mir)?(?: bitte)?(?: immer)?(?: nur)? )?auf (?P<value>Deutsch|Englisch)"
        r"(?(verb)| antworten)",
        at_hand=r"wie immer|(?:be)?nutzern?|kund\w+|dies\w*|hier|jetzt(?<!ab jetzt)|heute|gerade|noch ?mal",
    ),
    _spaced(  # French
        please=r"(?:s'il (?:te|vous) pla[iî]t|s[tv]p|merci de)",
        always=r"toujours|jamais|désormais|dorénavant|à partir de maintenant|à l'avenir|systématiquement|"
        r"chaque fois que [^,]+",
        deny=r"ne|n'",
        verbs=r"utilise[rz]?|exécute[rz]?|lance[rz]?|écri[st]?|écri(?:re|vez)|fai[st]|faites|faire|crée[rz]?|"
        r"met[s]?|mettez|"
        r"ajoute[rz]?|supprime[rz]?|vérifie[rz]?|demande[rz]?|montre[rz]?|modifie[rz]?|touche[rz]?|committe[rz]?|"
        r"pousse[rz]?|garde[rz]?|réponds|répondez",
        answers=r"répond(?:s|ez|re)(?:[- ]moi)?(?: toujours)?(?: uniquement)? en (?P<value>français|anglais)",
        at_hand=r"comme (?:toujours|jamais)|utilisateurs?|clients?|c(?:e|et|ette|es)|ça|cela|ici|"
        r"maintenant(?<!de maintenant)|aujourd'hui|encore",
    ),
    _spaced(  # Russian
        please=r"пожалуйста",
        always=r"всегда(?: сначала)?|никогда(?: больше)?|больше никогда|впредь|отныне|с этого момента|"
        r"каждый раз,? когда [^,]+|теперь всегда",
        deny=r"не",
        verbs=r"(?:используй|применяй|запускай|пиши|делай|создавай|добавляй|удаляй|проверяй|спрашивай|показывай|меняй|"
        r"трогай|коммить|пушь|отвечай)(?:те)?",
        last=r"использовать|запускать|писать|делать|проверять|отвечать",
        answers=r"отвечай(?:те)?(?: мне)?(?: всегда)?(?: только)? "
        r"(?P<value>по-русски|на русском|по-английски|на английском)",
        at_hand=r"как всегда|пользовател\w+|клиент\w*|эт\w+(?<!с этого)|здесь|сейчас|сегодня|ещё раз|снова",
    ),
)


def is_unspaced(sentence: str) -> bool:
    """Tell whether a sentence is in a script without spaces, or in Hangul, whatever it quotes."""
    return has_unspaced(_QUOTED.sub("", sentence))


def find_foreign_orders(sentence: str) -> Iterator[ForeignOrder]:
    """Yield what a sentence in another language than English tells its listener to do, clause by clause."""
    unspaced = is_unspaced(sentence)
    languages: tuple[_Language, ...] = _SPACED
    if unspaced:
        languages = (next(language for signs, language in _UNSPACED.items() if signs.search(sentence)),)
    for match in _CLAUSE.finditer(sentence):
        lead_in = _LEAD_IN.match(match[0])
        clause = _THANKS.sub("", match[0][lead_in.end() if lead_in else 0 :]).strip(" \t,，、.")
        bare = _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), clause)
        if not _MIN_CHARS <= len(clause) <= _MAX_CHARS or _NOT_SAID.search(bare):
            continue
        is_known = unspaced or is_foreign(sentence) or any(char.isalpha() and not char.isascii() for char in bare)
        readings = [(kind, language) for language in languages if (kind := _read_clause(language, bare)) is not None]
        for kind, language in sorted(readings, key=lambda reading: _KINDS.index(reading[0])):
            is_plain = len(clause) <= _MAX_ORDER_CHARS and (is_known or language.is_distinct) and says_enough(clause)
            if kind != "order" or is_plain:
                answers = language.answers.search(bare) if kind == "answers" else None
                yield ForeignOrder(strip_punctuation(clause), kind, answers["value"] if answers else "")
                break


def _read_clause(language: _Language, clause: str) -> _Kind | None:
    if language.not_lasting.search(clause):
        return None
    if language.answers.search(clause) and not _DENIED.search(clause):
        return "answers"
    if language.standing.search(clause):
        return "standing"
    return "order" if language.order.search(clause) else None
