"""Ranges of a lineage: whatever the tree, each session reads what a straight copy of its past would hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.models.lineage import Lineage, LineageRange, own_range
from tests.support import count_examples

Event = tuple[str, int]  # the session whose log holds it, and its seq there


def whole_log(session_id: str, ancestors: tuple[LineageRange, ...] = ()) -> Lineage:
    """Return a lineage of ranges of which nothing is pruned."""
    return Lineage(own_range(session_id, base_seq=ancestors[-1].upto if ancestors else 0), ancestors)


@dataclass
class Session:
    """A session of a tree, and a straight copy of its whole past."""

    id: str
    lineage: Lineage
    copy: dict[int, Event]  # position -> event
    head: int

    def append(self, count: int) -> None:
        """Append events to its own log."""
        for _ in range(count):
            self.head += 1
            self.copy[self.head] = (self.id, self.head)


def create_root() -> Session:
    """Return a session without ancestors."""
    return Session("0", whole_log("0"), {}, 0)


def create_child(parent: Session, name: str, point: int, *, renumbered: bool) -> Session:
    """Return a child after a point; an imported fork if its own numbering begins anew."""
    past = {position: event for position, event in parent.copy.items() if position <= point}
    ranges = parent.lineage.inherit(point)
    if renumbered:
        ranges = tuple(replace(part, shift=part.shift - point) for part in ranges)
        past = {position - point: event for position, event in past.items()}
    base = 0 if renumbered else point
    return Session(name, Lineage(own_range(name, base_seq=base), ranges), past, base)


@st.composite
def trees(draw: st.DrawFn) -> list[Session]:
    """Draw a tree of forks and imported forks, at any point, also an ancestor's."""
    root = create_root()
    root.append(draw(st.integers(1, 6)))
    sessions = [root]
    for number in range(1, draw(st.integers(1, 8))):
        parent = draw(st.sampled_from(sessions))
        positions = sorted(parent.copy)
        point = draw(st.sampled_from(positions)) if positions else parent.head
        renumbered = draw(st.booleans()) and point == parent.head
        if not renumbered and point < 0:
            point = parent.head  # what stands before an imported fork is forked from its own log
        child = create_child(parent, str(number), point, renumbered=renumbered)
        child.append(draw(st.integers(0, 5)))
        parent.append(draw(st.integers(0, 3)))  # the original goes on
        sessions.append(child)
    return sessions


def read(lineage: Lineage, after: int, upto: int) -> dict[int, Event]:
    """Read a part of a lineage from the sessions' own logs."""
    return {
        seq + part.shift: (part.session_id, seq)
        for part in lineage.slice(after, upto)
        for seq in range(part.after_seq + 1, part.upto_seq + 1)
    }


@given(trees(), st.data())
@settings(max_examples=count_examples(300), deadline=None)
def test_each_session_reads_what_a_straight_copy_holds(sessions: list[Session], data: st.DataObject) -> None:
    for session in sessions:
        lineage = session.lineage
        assert read(lineage, lineage.begins_after, session.head) == session.copy
        after = data.draw(st.integers(lineage.begins_after - 1, session.head))
        upto = data.draw(st.integers(after, session.head + 1))
        expected = {position: event for position, event in session.copy.items() if after < position <= upto}
        assert read(lineage, after, min(upto, session.head)) == expected
        for position, (owner, seq) in session.copy.items():
            part = lineage.locate(position)
            assert part is not None
            assert (part.session_id, position - part.shift) == (owner, seq)
        assert all(before.upto == part.after for before, part in pairwise(lineage.ranges))
        assert not lineage.is_truncated


@given(trees(), st.data())
@settings(max_examples=count_examples(200), deadline=None)
def test_everything_after_the_last_hole_can_be_read(sessions: list[Session], data: st.DataObject) -> None:
    session = sessions[-1]
    pruned = {other.id: data.draw(st.none() | st.integers(0, 8)) for other in sessions}
    own = replace(session.lineage.own, pruned_to=max(session.lineage.own.after_seq, pruned[session.id] or 0))
    lineage = Lineage(
        own, tuple(replace(part, pruned_to=pruned[part.session_id]) for part in session.lineage.ancestors)
    )

    def is_there(owner: str, seq: int) -> bool:
        gone_to = (own.pruned_to or 0) if owner == session.id else pruned[owner]
        return gone_to is not None and seq > gone_to

    gone = [position for position, event in session.copy.items() if not is_there(*event)]
    assert all(position <= lineage.readable_after for position in gone)
    after = [position for position in session.copy if position > lineage.readable_after]
    assert all(is_there(*session.copy[position]) for position in after)
    if not gone:
        assert not lineage.is_truncated or not any(position <= lineage.readable_after for position in session.copy)


def test_an_imported_fork_reads_its_parent_before_its_own_first_event() -> None:
    parent = create_root()
    parent.append(3)
    child = create_child(parent, "1", 3, renumbered=True)
    child.append(2)
    assert read(child.lineage, child.lineage.begins_after, 2) == {
        -2: ("0", 1), -1: ("0", 2), 0: ("0", 3), 1: ("1", 1), 2: ("1", 2),
    }  # fmt: skip
    assert child.lineage.begins_after == -3
    assert child.lineage.ancestors == (LineageRange("0", 0, 3, -3),)
