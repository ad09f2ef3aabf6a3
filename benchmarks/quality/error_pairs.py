"""Measures error pairs against hand labels: which call resolved which failed call.

`evaluate` is pure: it compares records that the product made with labels, and knows nothing of how they came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.memory.failures import ErrorRecord


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of one failed call."""

    session: str
    call_index: int  # 0-based, in the order of the session's tool calls
    label: str  # resolved | unresolved | noise
    resolving: tuple[int, ...]  # the calls that count as its resolver

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Label:
        """Read a line of a labels file."""
        return cls(data["session"], data["call_index"], data["label"], tuple(data["resolving_call_index"]))


def evaluate(records_by_session: Mapping[str, Iterable[ErrorRecord]], labels: Iterable[Label]) -> dict[str, Any]:
    """Return precision, recall and the wrong ones of the predicted pairs; errors without a label are ignored.

    precision: right pairs / predicted pairs, where a resolver of what is labelled noise or unresolved is wrong.
    recall: errors labelled resolved with an acceptable resolver predicted / errors labelled resolved.
    """
    records = {(session, record.index): record for session, found in records_by_session.items() for record in found}
    predicted = right = resolved = told_noise = is_noise = absent = 0
    wrong: list[dict[str, Any]] = []
    judged = sorted(labels, key=lambda label: (label.session, label.call_index))
    for label in judged:
        record = records.get((label.session, label.call_index))
        absent += record is None
        found = record.resolver_index if record is not None and record.status == "resolved" else None
        hit = label.label == "resolved" and found in label.resolving
        resolved += label.label == "resolved"
        predicted += found is not None
        right += hit
        is_noise += label.label == "noise"
        told_noise += label.label == "noise" and record is not None and record.status == "noise"
        if not hit and (found is not None or label.label == "resolved"):
            wrong.append(
                {
                    "session": label.session,
                    "call": label.call_index,
                    "label": label.label,
                    "acceptable": list(label.resolving),
                    "predicted": found,
                    "rule": record.rule if record is not None else None,
                }
            )
    return {
        "labels": len(judged),
        "predicted": predicted,
        "right": right,
        "resolved": resolved,
        "precision": right / predicted if predicted else 1.0,
        "recall": right / resolved if resolved else 1.0,
        "noise": is_noise,
        "noise_told": told_noise,
        "not_failed": absent,
        "wrong": wrong,
    }
