"""Lines that repeat are counted: the first are written, then their number, in bounded memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from consolidator.jobs.serving import RepeatedLines, counted_repetitions


class Lines(logging.Handler):
    """Keeps what it is given to write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.written.append(record.getMessage())


class Seconds:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def lines(clock: Seconds) -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("test.repeated")
    handler.addFilter(RepeatedLines(handler, clock))
    logger.addHandler(handler)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)


log = logging.getLogger("test.repeated")


def end(lines: Lines) -> None:
    """Write the counts, as the end of the service does."""
    for counting in lines.filters:
        assert isinstance(counting, RepeatedLines)
        counting.write_counts()


def test_the_same_line_is_written_a_few_times_and_counted(lines: Lines) -> None:
    for _ in range(10_000):
        log.error("socket.accept() out of system resource")
    assert lines.written == ["socket.accept() out of system resource"] * 5
    end(lines)
    assert lines.written[5:] == ["repeated 9995 times: socket.accept() out of system resource"]
    end(lines)
    assert len(lines.written) == 6


@pytest.mark.parametrize("form", ["port %d failed", "{}"])
def test_lines_that_differ_in_numbers_are_written_a_few_times_and_counted(lines: Lines, form: str) -> None:
    for number in range(5_000):
        if form == "{}":
            log.error(f"transport <fd={number} at 0x{number:x}> failed")
        else:
            log.error(form, number)
    assert len(lines.written) == 5
    end(lines)
    assert lines.written[-1].startswith("repeated 4995 times: ")
    assert len(lines.written) == 6


def test_a_flood_of_words_in_one_message_is_bounded(lines: Lines) -> None:
    for number in range(2_000):
        log.warning("no such path: %s", "x" * number)
    assert len(lines.written) <= 5
    assert sum(map(len, lines.written)) < 2_000


def test_different_lines_are_all_written(lines: Lines) -> None:
    words = ("alpha", "beta", "gamma", "delta")
    for word in words:
        log.info("skipped") if word == "none" else log.warning("about " + word)
    log.error("about alpha")  # another level
    assert lines.written == [*("about " + word for word in words), "about alpha"]


def test_a_line_is_written_again_after_its_window(lines: Lines, clock: Seconds) -> None:
    for _ in range(7):
        log.warning("the database went away")
    clock.now = 61
    log.warning("the database went away")
    assert lines.written[4:] == [
        "the database went away",
        "repeated 2 times: the database went away",
        "the database went away",
    ]


def test_kinds_are_forgotten_and_their_counts_written_in_bounded_memory(lines: Lines) -> None:
    for number in range(3_000):
        for _ in range(6):
            log.error("x" * (number % 490) + "abcdefghij"[number // 490])
    (counting,) = lines.filters
    assert isinstance(counting, RepeatedLines)
    assert len(counting._windows) <= 500
    assert sum(line.startswith("repeated 1 times") for line in lines.written) > 1_000


def test_a_message_that_does_not_fit_its_values_stops_nothing(lines: Lines) -> None:
    (counting,) = lines.filters
    assert isinstance(counting, RepeatedLines)
    broken = logging.LogRecord("x", logging.ERROR, "", 1, "%d %d", ("a",), None)
    assert counting.filter(broken) is True


async def test_the_root_handlers_count_while_the_service_runs() -> None:
    root, handler = logging.getLogger(), Lines()
    root.addHandler(handler)
    try:
        async with counted_repetitions():
            for _ in range(9):
                logging.getLogger("asyncio").error("the same")
        logging.getLogger("asyncio").error("the same")
    finally:
        root.removeHandler(handler)
    assert handler.written == [*["the same"] * 5, "repeated 4 times: the same", "the same"]
