"""Six statements in five languages: a night believes the same of each, with sentences in the project's language."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import query_rows
from tests.oracle import decide_all, fact_json, parse_lines, schema_name, with_model
from tests.support import assistant_response, log_events, run_job, user_message

STATED = {  # predicate and kind, the same in every language
    "always_uses": "constraint",
    "deploys_on": "project",
    "staging_database": "environment",
    "package_manager": "environment",
    "never_commits": "constraint",
    "stores_money_in": "decision",
}
# Of each statement what was said, the quote, the value and the sentence; answers written by hand.
SAID = {
    "en": """From now on always use pnpm, never npm. | always use pnpm | pnpm, never npm
        We deploy on Tuesdays. | deploy on Tuesdays | Tuesdays
        The staging database is called store_stage. | staging database is called store_stage | store_stage
        Our package manager is pnpm. | package manager is pnpm | pnpm
        Never commit generated files. | Never commit generated files | generated files
        We decided to keep money in integer cents. | money in integer cents | integer cents""",
    "de": """Ab jetzt immer pnpm benutzen, nie npm. | immer pnpm benutzen | pnpm, nie npm
        Wir deployen immer dienstags. | deployen immer dienstags | dienstags
        Die Staging-Datenbank heißt laden_stage. | Staging-Datenbank heißt laden_stage | laden_stage
        Unser Paketmanager ist pnpm. | Paketmanager ist pnpm | pnpm
        Bitte committe niemals generierte Dateien. | niemals generierte Dateien | generierte Dateien
        Wir haben uns entschieden, Geld in ganzen Cent zu speichern. | Geld in ganzen Cent | ganzen Cent""",
    "ja": """今後は必ずpnpmを使ってください。npmは使わないで。 | 必ずpnpmを使って | pnpm
        デプロイは毎週火曜日に行います。 | 毎週火曜日 | 火曜日
        ステージングのデータベース名は mise_stage です。 | データベース名は mise_stage | mise_stage
        私たちのパッケージマネージャはpnpmです。 | パッケージマネージャはpnpm | パッケージマネージャはpnpm
        生成されたファイルは絶対にコミットしないでください。 | 絶対にコミットしないで | 生成されたファイル
        金額は整数のセントで保存することに決めました。 | 整数のセントで保存 | 整数のセント""",
    "zh": """从现在起一律使用pnpm,不要用npm。 | 一律使用pnpm | pnpm
        我们每周二部署。 | 每周二部署 | 每周二
        预发布数据库叫 shop_stage_zh。 | 数据库叫 shop_stage_zh | shop_stage_zh
        我们的包管理器是pnpm。 | 包管理器是pnpm | 包管理器是pnpm
        永远不要提交生成的文件。 | 不要提交生成的文件 | 生成的文件
        我们决定用整数分来存储金额。 | 用整数分来存储金额 | 整数分""",
    "fr": """Désormais, utilise toujours pnpm, jamais npm. | toujours pnpm | pnpm, jamais npm
        Nous déployons le mardi. | déployons le mardi | le mardi
        La base de staging s'appelle boutique_stage. | s'appelle boutique_stage | boutique_stage
        Notre gestionnaire de paquets est pnpm. | gestionnaire de paquets est pnpm | pnpm
        Ne committe jamais de fichiers générés. | jamais de fichiers générés | fichiers générés
        Nous avons décidé de stocker l'argent en centimes entiers. | en centimes entiers | centimes entiers""",
}
ANSWERS: dict[str, dict[str, Any]] = {}  # by what was said
for rows in SAID.values():
    for (predicate, kind), row in zip(STATED.items(), rows.splitlines(), strict=True):
        said, quote, value = (cell.strip() for cell in row.split(" | "))
        ANSWERS[said] = fact_json("", quote, predicate, value, said, kind, subject="project")


def answer(request: dict[str, Any]) -> ScriptedReply:
    if schema_name(request) == "decisions":
        return decide_all(request)
    lines = parse_lines(request)
    facts = [{**ANSWERS[text], "line": name} for name, speaker, text in lines if speaker == "user"]
    return ScriptedReply.json({"facts": facts})


async def test_statements_in_five_languages_are_believed_alike(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for language, rows in SAID.items():
        said = [row.split(" | ")[0].strip() for row in rows.splitlines()]
        talk = [event for text in said for event in (user_message(text), assistant_response("OK."))]
        await log_events(database, language, talk, agent="coder", project=f"/home/mara/{language}", peer="mara")
    clock.advance(timedelta(hours=1))
    async with ModelServer(answer) as server:
        await run_job(database, with_model(settings, server))
    for language, rows in SAID.items():
        query = f"select kind, sentence from fact where project = '/home/mara/{language}'"
        believed = await query_rows(database, f"{query} and superseded_at is null")
        sentences = "\n".join(row["sentence"] for row in believed).casefold()
        for row in rows.splitlines():
            assert row.split(" | ")[1].casefold() in sentences, (language, row)
        kinds = {row["kind"] for row in believed}  # rules, which read some of them, too, name a relation otherwise
        assert kinds == set(STATED.values()), language
