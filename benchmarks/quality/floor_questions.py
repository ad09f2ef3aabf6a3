"""Questions about the sample logs, with an answer in them or without one, which no log has said in these words.

Those of dialogues with an answer are the annotators' own, named by their place in the file.
"""

from __future__ import annotations

from dataclasses import dataclass

CODE, PI, SWE, DIALOGUES = "claude-code", "pi", "swe-agent", "locomo"  # agents of the sample logs


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, and whether the log of its agent has an answer."""

    agent: str
    text: str  # or NAME:NUMBER, the place of a question among those of a dialogue
    has_answer: bool


_ANSWERABLE = {
    CODE: (
        "how should credo and dialyzer be set up?",
        "why does mix phx.server not start?",
        "what was done about the beads of the epic?",
        "was the branch pushed?",
        "which issue did bead spotter-dov describe?",
    ),
    PI: (
        "where is the refactoring plan written down?",
        "which tests are wanted for AgentSession?",
        "should the thinking level be part of AgentSession?",
        "when are bash results shown in the chat if the agent is streaming?",
        "which folder did the tui components move to?",
        "what happens to queued messages in interactive mode?",
    ),
    SWE: (
        "what was wrong with the rounding of TimeDelta in marshmallow?",
        "which issue was reported about pydicom?",
        "how was the time capsule challenge encrypted?",
        "what does the syntax error in the test repository come from?",
    ),
    DIALOGUES: tuple(
        f"{name}:{number}" for name, numbers in (
            ("30", (8, 24, 40, 56, 72)), ("43", (30, 75, 110, 130, 160)), ("48", (30, 75, 100, 130, 160)),
        ) for number in numbers
    ),
}  # fmt: skip
_UNANSWERABLE = {
    CODE: (
        "which cloud provider hosts our payment service?",
        "how long do we keep customer invoices?",
        "how do we rotate the ingress certificates?",
        "what did we decide about push notifications of the mobile app?",
        "which eviction policy does Redis use?",
    ),
    PI: (
        "what is the deadline of the GraphQL gateway?",
        "which colour do the buttons of the landing page have?",
        "how is the staging cluster deployed?",
        "how many vacation days may be carried over?",
        "why was Kafka chosen instead of RabbitMQ?",
    ),
    SWE: (
        "how long must a password of the LDAP server be?",
        "which Terraform module creates the network?",
        "how is traffic above the quota billed?",
        "when does the board meet next?",
        "who maintains the Helm chart?",
    ),
    DIALOGUES: (
        "What is Jon's blood type?",
        "Which airline did Gina fly with to Tokyo?",
        "Which insulin does Tim take?",
        "Which insurance does John's car have?",
        "What is Deborah's favourite programming language?",
        "How much rent does Jolene pay?",
        "Who is Gina's dentist?",
        "Which bank gave Jon his mortgage?",
        "What is the name of Tim's parrot?",
        "Which party does John vote for?",
        "What was Jolene's grade in Latin?",
        "Did Deborah ever own a motorcycle?",
        "What is the wifi password of the studio?",
        "Which hospital was Jon born in?",
        "How many of Tim's siblings live in Norway?",
    ),
}
QUESTIONS = tuple(
    LabelledQuestion(agent, text, has_answer)
    for questions, has_answer in ((_ANSWERABLE, True), (_UNANSWERABLE, False))
    for agent, texts in questions.items()
    for text in texts
)
