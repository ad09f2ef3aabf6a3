"""Ordinary sentences of a person are about that person; what they say of somebody else is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.facts.test_gate import read_message

# text | value | subject; the value stands in the text, and the whole text is the quote
OWN = """
Please use 4 spaces in all Python files | 4 spaces | user
Use Docker images from the internal registry only | images from the internal registry | user
Keep Jira tickets short | short | user
Don't put emojis in Slack messages | emojis | user
Write emails to Anna in German | German | user
Please use tabs in all Java projects | tabs | user
Use pnpm, Python scripts with uv | uv | user
Let's use tabs | tabs | user
Use tabs, Tom prefers spaces. | tabs | user
Send Tom a reminder every Monday | a reminder every Monday | user
Run tests every night | every night | user
Never merge on Fridays | Fridays | user
Always format Rust code with rustfmt | rustfmt | user
Do not translate React labels into French | labels | user
Could you write to Anna in German from now on? | German | user
And please keep Confluence pages under two screens | under two screens | user
Mark emails from GitHub as read | as read | user
Review builds of Gradle before you merge them | before you merge | user
Address customers by their first name | by their first name | user
Put TypeScript types in a file of their own | in a file of their own | user
Answer in short sentences, Slack threads in bullets | bullets | user
Show temperatures in Celsius | Celsius | user
Name branches after Jira issues | after Jira issues | user
Just give Anna a call on weekdays | weekdays | user
From now on, store Kafka offsets in Postgres | in Postgres | user
Write tests first, Tom does it too | tests first | user
My favourite editor is Vim | Vim | user
My native language is German | German | user
My Tesla has four seats | four seats | user
Our Jenkins builds take an hour | an hour | user
I drink Earl Grey in the morning | Earl Grey | user
I work for Siemens on Simatic drives | Simatic drives | user
I play the cello and speak French | French | user
My wife and I have two dogs, Rex and Bella | Rex and Bella | user
I'm vegan, Tom isn't. | vegan | user
Call me Max | Max | user
My car is a Volvo, Anna drives a Skoda | Volvo | user
Summaries should be in English, with metric units | metric units | user
Mum's birthday is on 4 May | 4 May | user's mother
Mum lives in Bergen | Bergen | user's mother
My mom is called Ruth | Ruth | user's mother
Dad drives a Volvo | Volvo | user's father
My kids live in Bergen | Bergen | user's children
Mein Lieblingseditor ist Vim | Vim | user
Bitte antworte auf Deutsch | Deutsch | user
Schreib Mails an Anna auf Deutsch | Deutsch | user
Meine Muttersprache ist Deutsch | Deutsch | user
Ich arbeite bei Siemens in Erlangen | Erlangen | user
Meine Mutter wohnt in Bergen | Bergen | user's mother
Meine Frau heisst Lena | Lena | user's wife
J'habite à Lyon | Lyon | user
Réponds en français, s'il te plaît | français | user
Ma mère habite à Lyon | Lyon | user's mother
Mon anniversaire est le 4 mai | 4 mai | user
My brother studies law, I study chess | chess | user
My colleagues and I work from Ghent | Ghent | user
My tests run in Docker and I like that | Docker | user
My dentist appointment at Colgate House is on 4 May | 4 May | user
My flight to Tokyo leaves on Friday | Friday | user
My meeting at Siemens is on Mondays | Mondays | user
Our booth near Gate Seven was 20 feet wide | 20 feet | user
My train from Utrecht takes two hours | two hours | user
My lease in Alder Court has two years left | two years | user
Our order via Harbor Freight is late | late | user
My locker opposite Room Nine is broken | broken | user
Mein Termin im Haus Alster ist am Freitag | am Freitag | user
My meeting with Anna is on Friday | Friday | user
Use vim, Petra swears by emacs | vim | user
"""
OTHERS = """
Anna prefers pnpm, Tom uses npm | npm | user
Anna prefers pnpm, Tom uses npm | pnpm | user
Anna prefers pnpm, Tom uses npm | pnpm | Tom
My boss lives in Bergen | Bergen | user
My parents live in Bergen | Bergen | user
My parents live in Bergen and work in Oslo | Oslo | user
They live in Bergen | Bergen | user
anna prefers pnpm, tom uses npm | npm | user
Tom codes in Rust | Rust | user
I think Anna codes in Rust | Rust | user
Mark lives in Bergen | Bergen | user
Grant works at Siemens | Siemens | user
Mum's birthday is on 4 May | 4 May | user
Mum lives in Bergen | Bergen | user's father
My wife's birthday is on 4 May | 4 May | user's mother
Anna must avoid nuts | nuts | user
Use tabs, Tom prefers spaces. | spaces | user
Anna Miller teaches maths | maths | user
Der Chef wohnt in Bergen | Bergen | user
Meine Schwester mag Tee | Tee | user
Ma soeur habite à Lyon | Lyon | user
Tom and Anna drink tea | tea | user
Ask Tom, he owns a Volvo | Volvo | user
Remember that Tom likes tea | tea | user
My neighbours keep bees in the yard | bees | user
Our accountant Paul charges 90 euros an hour | 90 euros | user
Mein Bruder studiert Physik in Graz | Physik | user
My cousins run a bakery in Faro | bakery | user
My brother studies law, I study chess | law | user
My brother in Colgate House is a vet | vet | user
My boss at Siemens is Polish | Polish | user
My car was in Bergen, Tom is sick | sick | user
When I was in Bergen Tom was sick | sick | user
I live with Tom who is vegan | vegan | user
I work at Siemens and Anna is a vet | a vet | user
My sister's flat in Alder Court is damp | damp | user
Tom at Colgate House is a vet | a vet | user
"""


def read_rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(" | ")] for line in table.strip().splitlines()]


@pytest.mark.parametrize(("text", "value", "subject"), read_rows(OWN))
def test_what_a_person_says_of_themselves_is_theirs(text: str, value: str, subject: str) -> None:
    stated: dict[str, Any] = {"quote": text, "value": value, "sentence": f"The {subject}: {value}.", "subject": subject}
    assert [refused.reason for refused in read_message(text, **stated).rejected] == []


@pytest.mark.parametrize(("text", "value", "subject"), read_rows(OTHERS))
def test_what_a_person_says_of_others_is_not_theirs(text: str, value: str, subject: str) -> None:
    stated: dict[str, Any] = {"quote": text, "value": value, "sentence": f"The {subject}: {value}.", "subject": subject}
    assert len(read_message(text, **stated).rejected) == 1
