"""Another rate: a tone is the same tone, and what the new rate cannot carry is gone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from smofi.data.formats.sound import resampled
from support.sounds import tone

INSIDE = slice(2000, -2000)
"""Away from the ends, where the sound begins and stops."""


@pytest.mark.parametrize(
    "rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, pytest.param(44_099, marks=pytest.mark.slow)]
)
def test_a_tone_is_what_it_would_have_been(rate: int) -> None:
    for frequency in (300, 3_000, min(7_000, 0.4 * rate)):
        found = resampled(tone(frequency, rate).astype(np.float32), rate, 16_000)
        assert len(found) == 16_000
        assert np.abs(found - tone(frequency, 16_000))[INSIDE].max() < 2e-5


@pytest.mark.parametrize("frequency", [8_500, 10_000, 15_000, 20_000])
def test_what_is_above_half_the_rate_does_not_come_back_as_something_else(frequency: int) -> None:
    found = resampled(tone(frequency, 44_100).astype(np.float32), 44_100, 16_000)
    assert np.abs(found)[INSIDE].max() < 1e-5  # 94 dB below the tone


def test_a_constant_stays_and_short_sounds_have_a_length() -> None:
    constant = resampled(np.full(4_800, 0.25, np.float32), 48_000, 16_000)
    assert np.abs(constant[200:-200] - 0.25).max() < 1e-5
    assert [len(resampled(np.ones(count, np.float32), 44_100, 16_000)) for count in (1, 2, 3, 4)] == [1, 1, 2, 2]
    same = np.arange(5, dtype=np.float32)
    assert resampled(same, 16_000, 16_000) is same


def test_a_rate_that_has_nothing_in_common_with_the_new_one_takes_little_memory() -> None:
    tracemalloc.start()
    resampled(np.ones(10, np.float32), 767_999, 16_000)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_it_is_the_sum_that_the_docstring_says() -> None:
    """Against the plain sum over all samples, with the kernel written out for one moment in time."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=3_000).astype(np.float32)
    found = resampled(samples, 24_000, 16_000)
    time = 701 * 24_000 / 16_000
    apart = (np.arange(3_000) - time) * 0.95 * 16_000 / 24_000
    window = np.where(np.abs(apart) <= 64, np.i0(10 * np.sqrt(np.clip(1 - (apart / 64) ** 2, 0, None))) / np.i0(10), 0)
    weights = np.sinc(apart) * window
    assert found[701] == pytest.approx(float(weights @ samples / weights.sum()), abs=1e-6)
