"""What a person orders in another language than English is read by its markers, whole and in its own words."""

from __future__ import annotations

import pytest

from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.instructions import group_orders, is_brief, is_same_order
from consolidator.memory.facts.rule_extraction import propose_candidates
from consolidator.models.payload import EventType
from tests.unit.facts.test_rules import WORK, make_event

STANDING = [
    "以後提交訊息一律用英文寫",
    "从现在起一律使用uv,不要用pip",
    "永远不要提交构建产物",
    "每次發版前請先跑煙霧測試",
    "之後都請幫我附上截圖",
    "今後は必ずuvを使ってください",
    "設定ファイルは絶対に変更しないでください",
    "毎回テストを実行してください",
    "앞으로는 uv를 사용해 주세요",
    "항상 테스트를 먼저 실행해줘",
    "Siempre usa uv, nunca pip",
    "Nunca hagas push a main sin preguntar",
    "Nunca faça commit sem rodar os testes",
    "A partir de agora use uv",
    "Ab jetzt immer uv benutzen, nie pip",
    "Bitte committe niemals erzeugte Dateien",
    "Désormais, utilise toujours uv, jamais pip",
    "Ne touche jamais aux fichiers générés",
    "Всегда запускай тесты перед коммитом",
    "Никогда не пушь в main",
    "С этого момента используй uv",
    "Больше никогда не пушь в main",
    "N'utilise jamais pip",
    "Use sempre tabs para indentar",
    "从现在开始用uv",
    "每次提交前都要跑测试",
]
ANSWERS = {
    "除了專有名詞, 請用繁體中文回答": "繁體中文",
    "回答请用英文": "英文",
    "日本語で回答してください": "日本語",
    "回答は日本語でお願いします": "日本語",
    "한국어로 답변해 주세요": "한국어",
    "Responde siempre en español": "español",
    "Responda em português": "português",
    "Antworte bitte auf Deutsch": "Deutsch",
    "Réponds-moi en français": "français",
    "Отвечай по-русски": "по-русски",
    "Responda sempre em português do Brasil": "português do Brasil",
    "Responde solo en español": "español",
    "Bitte immer auf Deutsch antworten": "Deutsch",
    "Merci de répondre en français": "français",
    "Отвечай только на русском": "на русском",
}
SAYS_NOTHING_LASTING = [
    "请用英文回答客户",
    "responde en inglés a los clientes",
    "ユーザーは常に認証すること",
    "Всегда приходится всё проверять",
    "use o de sempre",
    "英語で回答しないでください",
    "영어로 대답하지 마",
    "每次请求都返回404",
    "申请每次都要审批",
    "别名每次都要更新",
    "毎回エラーが出るので直してください",
    "매번 오류가 나니까 고쳐주세요",
    "언제나 행복하세요",
    "Immer muss ich alles selbst machen",
    "Künftig können Nutzer ihr Passwort ändern",
    "responde como siempre",
    "Teste wie immer",
    "以後會用到這個函式",
    "以後要支援多語系",
    "以後再說",
    "以後是不是都要先問你？",
    "每次編譯都要等十分鐘",
    "總是要重啟兩次才會好",
    "測試一直失敗",
    "他用英文回答了客戶",
    "讓客服機器人用繁體中文回答客戶",
    "他說「以後請用分號」",
    "RW 永遠不轉送 → 因為 SET 必須留在本地",
    "今後の参考のため記録しました",
    "今後どのように対応すべきか教えてください",
    "テストは常に失敗します",
    "항상 실패해요",
    "Siempre falla la prueba",
    "Siempre crea un archivo vacío",
    "Nunca usa la caché",
    "Sempre usa o cache antigo",
    "Immer noch kaputt",
    "Immer wenn ich starte, stürzt es ab",
    "Wir veröffentlichen immer dienstags",
    "Toujours pas de résultat",
    "Всегда падает на старте",
    "Nunca me respondas en inglés",
    "Te dije que no respondieras en inglés",
    "Eu nunca disse para usar pip",
    "Ich habe nie gesagt, dass du auf Englisch antworten sollst",
    "Je n'ai jamais dit d'utiliser pip",
    "Я никогда не говорил использовать pip",
    "npmを使えとは一度も言っていません",
    "영어로 답변하라고 한 적 없어요",
    "我從來沒說過要用英文回答",
    "以後用不到這個函式",
    "每次部署前都要等很久",
    "usa el estilo de siempre",
]


def read(text: str) -> list[Candidate]:
    return propose_candidates([make_event(EventType.USER_MESSAGE, text=text)], WORK, redact).candidates


@pytest.mark.parametrize("text", STANDING)
def test_an_order_that_says_that_it_lasts_is_a_rule_in_its_own_words(text: str) -> None:
    (candidate,) = read(text)
    assert (candidate.predicate, candidate.kind, candidate.value, candidate.quote) == ("rule", "constraint", text, text)
    assert candidate.sentence.rstrip(".").casefold() == text.casefold()


@pytest.mark.parametrize("text", ANSWERS)
def test_the_language_of_answers_is_a_preference_and_told_whole(text: str) -> None:
    (candidate,) = read(text)
    assert (candidate.predicate, candidate.value) == ("language of answers", ANSWERS[text])
    assert candidate.sentence.rstrip(".") == text


@pytest.mark.parametrize("text", SAYS_NOTHING_LASTING)
def test_a_question_a_complaint_a_plan_or_a_quotation_is_no_wish(text: str) -> None:
    assert [candidate for candidate in read(text) if candidate.predicate != "instruction"] == []


@pytest.mark.parametrize(
    "text",
    ["> 以後一律用英文寫", "```\n以後一律用英文寫\n```", "\n".join(["以後一律用英文寫"] * 9), "他說“以後一律用英文寫”"],
)
def test_what_is_pasted_or_quoted_in_another_language_is_nobodys_wish(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("等我一下; 額度快到80%的時候請提醒我, 謝謝", "額度快到80%的時候請提醒我"),
        ("请帮我更新变更日志。谢谢", "请帮我更新变更日志"),
        ("変更履歴も更新してください。", "変更履歴も更新してください"),
        ("Nutze pnpm statt npm", "Nutze pnpm statt npm"),
        ("No toques los ficheros de migración", "No toques los ficheros de migración"),
        ("Por favor, ejecuta los tests antes de la entrega", "Por favor, ejecuta los tests antes de la entrega"),
    ],
)
def test_another_order_is_counted_clause_by_clause(text: str, order: str) -> None:
    (candidate,) = read(text)
    assert (candidate.predicate, candidate.value) == ("instruction", order)


@pytest.mark.parametrize(
    "text",
    ["請幫我修改此檔案", "請幫我確認這件事情", "이 파일을 수정해 주세요", "お願いします", "この画面を直してください"],
)
def test_an_order_that_points_or_names_nothing_is_not_counted(text: str) -> None:
    assert read(text) == []


def test_orders_without_spaces_are_the_same_if_most_of_their_signs_and_all_names_are() -> None:
    reminders = ["quota快到80%的時候請提醒我", "quota接近80%時請提醒我", "quota到達80%的時候提醒我"]
    others = ["quota到達90%的時候提醒我", "quota到達80%的時候不要提醒我", "請幫我更新變更日誌", "請幫我刪除變更日誌"]
    groups = group_orders([*reminders, *others])
    assert groups == [reminders, *([order] for order in others)]
    assert is_brief("請幫我更新")
    assert not is_brief("請幫我更新變更日誌")
    assert not is_brief("use haiku")  # a tool is wanted, whatever the task


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("用npm安装依赖", "用pnpm安装依赖"),
        ("请用英文写提交信息", "请用中文写提交信息"),
        ("테스트를 실행해줘", "테스트를 실행하지 마"),
        ("Lösche Tests", "Lösche keine Tests"),
    ],
)
def test_orders_that_name_or_deny_another_thing_are_two(first: str, second: str) -> None:
    assert not is_same_order(first, second)
