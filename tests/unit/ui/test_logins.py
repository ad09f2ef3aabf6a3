"""Links and logins of the page: each link works once and for minutes, each login for days."""

from __future__ import annotations

import time

from consolidator.ui.logins import LINK_SECONDS, LOGIN_SECONDS, Logins, make_code


def test_a_link_works_once() -> None:
    logins, code = Logins("secret"), make_code("secret")
    cookie = logins.log_in(code)
    assert cookie is not None
    assert logins.find(cookie) is not None
    assert logins.log_in(code) is None


def test_a_link_that_nobody_opened_in_time_is_void() -> None:
    moment = [time.time()]
    logins, code = Logins("secret", wall_clock=lambda: moment[0]), make_code("secret")
    moment[0] += LINK_SECONDS + 1
    assert logins.log_in(code) is None


def test_a_link_of_another_token_or_a_later_time_is_refused() -> None:
    logins, code = Logins("secret"), make_code("secret")
    void_at, _, rest = code.partition(".")
    for forged in (make_code("other"), f"{int(void_at) + 600}.{rest}", "", "x", code[:-1]):
        assert logins.log_in(forged) is None


def test_a_login_ends() -> None:
    moment = [0.0]
    logins = Logins("secret", clock=lambda: moment[0])
    cookie = logins.log_in(make_code("secret"))
    assert cookie is not None
    moment[0] = LOGIN_SECONDS + 1
    assert logins.find(cookie) is None
