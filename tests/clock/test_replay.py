"""Rounds replayed, against plain loops: what every way of waiting takes, who is late, and who has left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.clock.replay import SERVER, Job, Leg, Replay, Replayed, Rules, replay

INFINITE = math.inf


@dataclass(frozen=True)
class Row:
    """A client's round in numbers. A step takes `before`, `server` and `after`; in the U shape, `ending` on the client
    and once more `server` stand between the last two."""

    before: float = 1.0
    server: float = 0.5
    after: float = 1.0
    ending: float = 0.0
    steps: int = 3
    epoch: int = 3
    fetch: float = 0.0
    give: float = 0.0
    leaves: float = INFINITE

    @property
    def step(self) -> float:
        return self.before + self.after + (2 * self.server + self.ending if self.ending else self.server)

    @property
    def job(self) -> Job:
        first = Leg("compute", self.before / 4), Leg("up", 3 * self.before / 4), Leg(SERVER, self.server)
        middle = (Leg("down", self.ending / 2), Leg("up", self.ending / 2), Leg(SERVER, self.server))
        last = Leg("down", self.after / 4), Leg("compute", 3 * self.after / 4)
        legs = (*first, *(middle if self.ending else ()), *last)
        fetch = (Leg("down", self.fetch),) if self.fetch else ()
        give = (Leg("up", self.give),) if self.give else ()
        return Job(legs, self.steps, self.epoch, fetch, give, self.leaves)


def plain(seconds: float, steps: int = 4, **others: Any) -> Row:
    """A row whose steps take so many seconds, next to none of them on the server."""
    return Row(before=seconds / 2, server=0.0, after=seconds / 2, steps=steps, **{"epoch": steps, **others})


def run(rows: Sequence[Row], waits: str, start: float = 0.0, **rules: Any) -> Replayed:
    return Replay([row.job for row in rows], Rules(waits, **rules), start).run()


def near(found: float, expected: float) -> bool:
    return found == pytest.approx(expected, rel=1e-12, abs=1e-12)


seconds = st.floats(0.01, 10, allow_subnormal=False)
rows_drawn = st.builds(
    Row, before=seconds, server=seconds, after=seconds, steps=st.integers(1, 5), epoch=st.integers(1, 4),
    fetch=st.just(0.0) | seconds, give=st.just(0.0) | seconds,
)  # fmt: skip
u_shaped = st.builds(Row, before=seconds, server=seconds, after=seconds, ending=seconds, steps=st.integers(1, 4))
cohorts = st.lists(rows_drawn, min_size=1, max_size=5)
some_cohorts = cohorts | st.lists(u_shaped, min_size=1, max_size=4)


# ----------------------------------------------------------------------------------- a server that keeps nobody waiting


@given(rows=some_cohorts, waits=st.sampled_from(["step", "epoch", "round", "client"]), start=st.floats(0, 1e4))
@settings(max_examples=40)
def test_legs_that_are_merged_take_what_each_takes(rows: list[Row], waits: str, start: float) -> None:
    jobs = [row.job for row in rows]
    rules = Rules(waits, visits=[[*reversed(range(len(rows)))]] if waits == "client" else None)
    merged, events = replay(jobs, rules, start), Replay(jobs, rules, start).run()
    assert (merged.steps, merged.gone) == (events.steps, events.gone)
    assert merged.until == pytest.approx(events.until, rel=1e-12)
    assert merged.busy == pytest.approx(events.busy, rel=1e-9)  # events subtract times of the day
    assert near(merged.end, events.end)
    assert replay(jobs, rules, start, watch=True) == events


# ------------------------------------------------------------------------------------- a server with a will of its own


def permuted(rows: Sequence[Row], order: Any) -> list[list[int]]:
    """The rows of every tick, each time in another order."""
    ticks = [[j for j, row in enumerate(rows) if tick < row.steps] for tick in range(max(row.steps for row in rows))]
    for active in ticks:
        order.shuffle(active)
    return ticks


def time_passes(rows: Sequence[Row], servers: int, waits: str) -> list[int]:
    """When each row ends: whole seconds pass one by one, and at each of them everybody looks at what to do."""
    legs = [[(leg.kind, int(leg.seconds)) for leg in row.job.step] for row in rows]
    taken, place, left = [0] * len(rows), [-1] * len(rows), [0] * len(rows)  # steps, leg (-1: waits to begin), seconds
    served, arrived, until = [False] * len(rows), [0] * len(rows), [0] * len(rows)
    for now in range(10**6):
        for j in range(len(rows)):
            if place[j] >= 0 and left[j] == 0 and (served[j] or legs[j][place[j]][0] != SERVER):
                place[j], served[j] = place[j] + 1, False
                if place[j] == len(legs[j]):
                    taken[j], place[j], until[j] = taken[j] + 1, -1, now
                else:
                    left[j], arrived[j] = legs[j][place[j]][1], now
        waiting = [j for j, row in enumerate(rows) if place[j] < 0 and taken[j] < row.steps]
        under_way = [j for j in range(len(rows)) if place[j] >= 0]
        if not waiting and not under_way:
            return until
        for j in waiting:
            at_barrier = waits == "step" or (waits == "epoch" and taken[j] % rows[j].epoch == 0)
            within = waits == "epoch" and any(taken[i] % rows[i].epoch for i in waiting)
            if not at_barrier or not (under_way or within):
                place[j], left[j], arrived[j] = 0, legs[j][0][1], now
        queue = [j for j in range(len(rows)) if place[j] >= 0 and legs[j][place[j]][0] == SERVER and not served[j]]
        busy = sum(served)
        for j in sorted(queue, key=lambda j: (arrived[j], j))[: max(0, servers - busy)]:
            served[j] = True
        for j in range(len(rows)):
            left[j] -= place[j] >= 0 and (served[j] or legs[j][place[j]][0] != SERVER)
    raise AssertionError("it never ends")


whole = st.integers(1, 5)
whole_rows = st.builds(
    Row, before=whole.map(lambda n: 4.0 * n), server=whole.map(float), after=whole.map(lambda n: 4.0 * n),
    ending=st.sampled_from([0.0, 2.0, 6.0]), steps=st.integers(1, 4), epoch=st.integers(1, 3),
)  # fmt: skip


@given(
    rows=st.lists(whole_rows, min_size=1, max_size=5),
    servers=st.integers(1, 4),
    waits=st.sampled_from(["step", "epoch", "round"]),
)
@settings(max_examples=40)
def test_k_at_a_time_first_come_first_served(rows: list[Row], servers: int, waits: str) -> None:
    assert run(rows, waits, parallel=servers).until == time_passes(rows, servers, waits)


# ---------------------------------------------------------------------------------------------------------- deadlines


def late_by_the_second(lengths: Sequence[int], steps: Sequence[int], deadline: int) -> tuple[list[list[int]], int]:
    """Who is done in which tick, and when the round ends, with whole seconds that pass one by one.

    A tick lasts until all that began a step in it are done, or until the deadline; if nobody is done by then, until
    somebody is. A row is late if its latest step was not done in the tick in which it began, or will not be.
    """
    count = range(len(lengths))
    done, ends, began, late = [0] * len(lengths), [-1] * len(lengths), [-1] * len(lengths), [False] * len(lengths)
    landed: list[list[int]] = []
    waited: set[int] = set()
    limit = 0
    for now in range(10**6):
        for j in count:
            if ends[j] == now:
                done[j], ends[j], late[j] = done[j] + 1, -1, began[j] != len(landed) - 1
                landed[-1].append(j)
                waited.discard(j)
        if now == limit and landed:
            for j in waited:
                late[j] = True
            waited = set()
        if waited or (landed and not landed[-1]):
            continue
        left = [j for j in count if done[j] < steps[j]]
        if not left or (len(left) < len(lengths) and all(late[j] for j in left)):
            return landed, now
        landed.append([])
        limit = now + deadline
        for j in left:
            if ends[j] < 0:
                ends[j], began[j] = now + lengths[j], len(landed) - 1
                waited.add(j)
    raise AssertionError("it never ends")


@given(
    rows=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=5), deadline=st.integers(1, 10)
)
@settings(max_examples=40)
def test_deadlines_against_seconds_that_pass(rows: list[tuple[int, int]], deadline: int) -> None:
    lengths, steps = [length for length, _ in rows], [count for _, count in rows]
    landed, end = late_by_the_second(lengths, steps, deadline)
    found = run([plain(float(length), count) for length, count in rows], "step", deadline=float(deadline))
    assert found.landed == [sorted(row) for row in landed]
    assert found.end == end
    assert found.steps == [sum(j in tick for tick in landed) for j in range(len(rows))]


tenths = st.integers(1, 9).map(lambda tenth: tenth / 10)
in_tenths = st.builds(Row, before=tenths, server=tenths, after=tenths, steps=st.integers(1, 6))


@given(rows=st.lists(in_tenths, min_size=2, max_size=3), deadline=st.integers(5, 25).map(lambda tenth: tenth / 10))
@settings(max_examples=40)
def test_a_round_is_the_same_when_watched(rows: list[Row], deadline: float) -> None:
    """Steps often take just as long as they may; then it must not depend on who looks whether they are on time."""
    jobs, rules = [row.job for row in rows], Rules("step", deadline=deadline)
    found, watched = replay(jobs, rules), replay(jobs, rules, watch=True)
    assert found.landed == watched.landed
    assert near(found.end, watched.end)


# ------------------------------------------------------------------------------------------------------------ leaving


@pytest.mark.parametrize(
    ("waits", "rules", "rows", "steps", "until", "busy"),
    [
        # waited for until 4: tick 0 lasts 3 s, tick 1 until then, the others a second each
        ("step", {}, [plain(1.0), plain(3.0, leaves=4.0)], [4, 1], [6.0, 4.0], [4.0, 4.0]),
        ("round", {}, [plain(1.0), plain(1.0, leaves=2.5)], [4, 2], [4.0, 2.5], [4.0, 2.5]),
        # epochs of 2 steps; row 1 would need 2 x 3 s for its first epoch
        ("epoch", {}, [plain(1.0, epoch=2), plain(3.0, epoch=2, leaves=5.0)], [4, 1], [7.0, 5.0], [4.0, 5.0]),
        # in turns: 1 leaves in its second step, and 0 before its turn
        ("client", {"visits": [[1, 2, 0]]}, [plain(1.0, 2, leaves=2.0), plain(1.0, 2, leaves=1.5), plain(1.0, 2)],
         [0, 1, 2], [2.0, 1.5, 3.5], [0.0, 1.5, 2.0]),
        # all want the server at 1, for a second, in the order 2, 1, 0; row 1 has left when it would have its turn
        ("step", {"visits": [[2, 1, 0]]}, [Row(1, 1, 1, steps=1), Row(1, 1, 1, steps=1, leaves=1.5),
         Row(1, 1, 1, steps=1)], [1, 0, 1], [4.0, 1.5, 3.0], [3.0, 1.0, 3.0]),
        ("step", {"merges": True}, [Row(1, 1, 1, steps=1), Row(5, 1, 1, steps=1, leaves=3.0)], [1, 0], [5.0, 3.0],
         [3.0, 3.0]),
        # row 0 has the one server from 1 to 4, row 1 leaves the queue at 3, and row 2 follows at 4
        ("round", {"parallel": 1}, [Row(1, 3, 1, steps=1), Row(2, 3, 1, steps=1, leaves=3.0),
         Row(2.5, 1, 1, steps=1)], [1, 0, 1], [5.0, 3.0, 6.0], [5.0, 2.0, 4.5]),
        # a step that is done at this moment counts
        ("step", {}, [plain(1.0, 2, leaves=1.0), plain(1.0, 2, leaves=2.0)], [1, 2], [1.0, 2.0], [1.0, 2.0]),
        ("epoch", {}, [plain(1.0), plain(1.0, leaves=0.0)], [4, 0], [4.0, 0.0], [4.0, 0.0]),
        # two steps of a second, then 3 s to give back what it has, but it leaves at 4
        ("round", {}, [plain(1.0, 2, give=3.0, leaves=4.0), plain(1.0, 2)], [2, 2], [4.0, 2.0], [4.0, 2.0]),
    ],
)  # fmt: skip
def test_clients_that_leave_by_hand(
    waits: str, rules: dict[str, Any], rows: list[Row], steps: list[int], until: list[float], busy: list[float]
) -> None:
    found = run(rows, waits, **rules)
    assert found.steps == steps
    assert found.until == pytest.approx(until)
    assert found.busy == pytest.approx(busy)
    left = [row.leaves < INFINITE and (done < row.steps or row.give > 0) for row, done in zip(rows, steps, strict=True)]
    assert found.gone == left


# --------------------------------------------------------------------------------------------------- whatever happens


@st.composite
def anything(draw: st.DrawFn) -> tuple[list[Row], Rules]:
    """Any cohort under any rules; some of its clients leave."""
    rows = draw(some_cohorts)
    waits = draw(st.sampled_from(["step", "epoch", "round", "client"]))
    leaves = st.just(INFINITE) | st.floats(0, 40)
    rows = [replace(row, leaves=draw(leaves)) for row in rows]
    rules = Rules(waits, parallel=draw(st.sampled_from([1, 2, INFINITE])))
    if waits == "client":
        rules = replace(rules, visits=[[*range(len(rows))]])
    if waits == "step":
        deadline, merged = draw(st.just(INFINITE) | st.floats(0.1, 20)), replace(rules, merges=True)
        turns = replace(rules, visits=permuted(rows, draw(st.randoms(use_true_random=False))))
        rules = draw(st.sampled_from([replace(rules, deadline=deadline), merged, turns]))
    return rows, rules


@given(drawn=anything(), start=st.sampled_from([0.0, 1.0, 1e6]))
@settings(max_examples=100)
def test_what_always_holds(drawn: tuple[list[Row], Rules], start: float) -> None:
    rows, rules = drawn
    rows = [replace(row, leaves=start + row.leaves) for row in rows]
    found = run(rows, rules.waits, start, **{name: value for name, value in vars(rules).items() if name != "waits"})
    slack = 1e-9 * (1 + start)
    assert near(found.end, max(found.until))
    for j, row in enumerate(rows):
        mine = sorted((span.start, span.end) for span in found.spans if span.row == j)
        assert all(before[1] <= after[0] + slack for before, after in pairwise(mine))
        assert abs(sum(end - begin for begin, end in mine) - found.busy[j]) <= slack
        assert found.busy[j] <= found.until[j] - start + slack
        assert found.until[j] <= max(start, row.leaves) + slack
        assert found.steps[j] <= row.steps
        if rules.waits == "step":
            assert sum(tick.count(j) for tick in found.landed) == found.steps[j]
            assert all(tick.count(j) <= 1 for tick in found.landed)
        if rules.deadline == INFINITE:
            assert found.gone[j] or found.steps[j] == row.steps
            assert not (found.gone[j] and row.leaves == INFINITE)
    if rules.deadline < INFINITE and not any(found.gone):
        assert any(done == row.steps for done, row in zip(found.steps, rows, strict=True)), "somebody finishes"
