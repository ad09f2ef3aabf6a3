"""Values that JSON does not know are told to programs in a form that they can read back."""

from __future__ import annotations

from decimal import Decimal

from consolidator.service.encoding import to_visible_json


def test_bytes_are_hexadecimal_and_amounts_have_no_exponent() -> None:
    assert to_visible_json({"hash": b"\xab\x01", "cost": Decimal("1E-7")}) == {"hash": "ab01", "cost": "0.0000001"}
