"""Saving a round costs what it costs, however many are behind it."""

from pathlib import Path

from smofi.config import Config
from smofi.engine.events import Event, RoundDone
from smofi.experiment import start
from support.work import Instructions, Written

SETTINGS = Config(
    max_train=64, max_test=16, clients=4, participation=0.5, partition="iid", model="cnn", width=2, method=("smofi",),
    rounds=24, local_epochs=1, batch_size=8, executor=("loop",), clock="full", checkpoint_every=1,
)  # fmt: skip


def test_a_late_round_writes_and_computes_no_more_than_an_early_one(tmp_path: Path) -> None:
    (run,) = start(SETTINGS, tmp_path / "run")
    written, found = Written(tmp_path / "run"), dict[int, tuple[int, int]]()
    counter = Instructions()

    def follow(event: Event) -> None:
        """From the end of a round to the end of the next: what is saved after the first, and the next one itself."""
        if isinstance(event, RoundDone):
            counter.stop()
            found[event.record.round] = counter.count, written.bytes()
            counter.count = 0
            if event.record.round in (3, 22):
                counter.start()

    run.session.run.emit = follow
    run.train()
    (few, little), (many, much) = found[4], found[23]
    assert 1000 < many < 1.05 * few
    assert 1000 < much < little + 300  # numbers have more digits or fewer
