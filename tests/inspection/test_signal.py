"""Numbers worked out by hand."""

from __future__ import annotations

import math
import random

import pytest
from grpo_rlvr.inspection.rates import fit_spread
from grpo_rlvr.inspection.signal import dead_groups, estimate_signal
from grpo_rlvr.intervals import beta_cdf, binomial_tail, clopper_pearson, effective_size, upper_bound_of_none, wilson


def estimate(groups: list[list[bool | None]], num_generations: int = 4, **changes) -> dict:
    indices = [i for i, g in enumerate(groups) for _ in g]
    outcomes = [v for g in groups for v in g]
    given = {
        "prompt_indices": indices,
        "verdicts": outcomes,
        "totals": [None if v is None else float(v) for v in outcomes],
        "finishes": ["stop"] * len(outcomes),
        "tokens": [5] * len(outcomes),
        "completions": list(range(len(outcomes))),
        "num_generations": num_generations,
    }
    return estimate_signal(**{**given, **changes})


def test_wilson_against_the_textbook_value():
    # Newcombe 1998: 81 of 263, Wilson without continuity correction.
    low, high = wilson(81 / 263, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


def test_no_success_gives_the_exact_one_sided_bound():
    signal = estimate([[False] * 8] * 4)
    assert signal["verdict"] == "sft_first"
    assert signal["success"]["interval"] == [0.0, pytest.approx(1 - 0.05 ** (1 / 4))]  # four prompts, not 32 samples
    assert signal["success"]["effective_samples"] == 4
    assert "no success in 32 samples" in signal["reason"] and "8.94%" in signal["reason"] and "52.7%" in signal["reason"]
    assert "supervised fine-tuning" in signal["next_step"]


def test_one_success_is_enough_to_go_on():
    assert estimate([[False] * 8] * 3 + [[False] * 7 + [True]])["verdict"] == "go"


def test_too_easy_from_95_percent_on():
    assert estimate([[True] * 19 + [False]])["verdict"] == "too_easy"
    assert estimate([[True] * 18 + [False] * 2])["verdict"] == "go"


def test_unscored_above_a_tenth_wins_over_everything():
    assert estimate([[None] * 2 + [False] * 8])["verdict"] == "unscored"
    signal = estimate([[None] + [True] + [False] * 8])
    assert signal["verdict"] == "go" and signal["none_share"] == 0.1 and signal["success"]["scored"] == 9
    assert estimate([[None, None]])["verdict"] == "unscored"


def test_interval_is_wider_when_samples_of_a_prompt_agree():
    # Rates 0, 0, 1, 1 of four prompts: variance of the mean 4/3 * 4 * 0.25 * 64 / 32**2 = 1/12, so 0.25 * 12 = 3 independent samples.
    clustered, spread = estimate([[True] * 8] * 2 + [[False] * 8] * 2), estimate([[True, False] * 4] * 4)
    assert clustered["success"]["effective_samples"] == pytest.approx(3.0)
    assert spread["success"]["effective_samples"] == 32
    assert clustered["success"]["interval"] == [pytest.approx(x) for x in wilson(0.5, 3)]
    assert spread["success"]["interval"] == [pytest.approx(x) for x in wilson(0.5, 32)]


def test_effective_size_of_one_prompt_is_one():
    assert effective_size([3], [8]) == 1.0


def test_dead_groups_unbiased_estimate():
    # 2 of 6 right, groups of 2: (C(2,2) + C(4,2)) / C(6,2) = 7/15; of 3: (0 + C(4,3)) / C(6,3) = 4/20.
    group = [True] * 2 + [False] * 4
    assert dead_groups([group], 2) == {"size": 2, "share": pytest.approx(7 / 15), "interval": list(wilson(7 / 15, 1)), "method": "unbiased"}
    assert dead_groups([group], 3)["share"] == pytest.approx(0.2)


def test_the_dead_group_estimate_is_unbiased_for_any_rate():
    """Over all outcomes of 8 samples, weighted by their chance, it is p^G + (1-p)^G itself."""
    for p in (0.05, 0.3, 0.9):
        for size in (2, 4, 8):
            chances = [math.comb(8, k) * p**k * (1 - p) ** (8 - k) for k in range(9)]
            estimates = [dead_groups([[True] * k + [False] * (8 - k)], size)["share"] for k in range(9)]
            assert math.fsum(c * e for c, e in zip(chances, estimates, strict=True)) == pytest.approx(p**size + (1 - p) ** size)


def test_groups_larger_than_the_samples_take_the_spread_of_the_prompts():
    """2,000 prompts with rates from Beta(0.6, 1.4), 8 samples each: the plug-in is off by 8 points at 32, the fit by less than 2."""
    rng = random.Random(0)
    rates = [rng.betavariate(0.6, 1.4) for _ in range(2000)]
    groups = [[rng.random() < p for _ in range(8)] for p in rates]
    spread = fit_spread([(sum(g), 8) for g in groups])
    for size in (16, 32):
        truth = sum(p**size + (1 - p) ** size for p in rates) / len(rates)
        fitted, plug_in = dead_groups(groups, size, spread), dead_groups(groups, size)
        assert abs(fitted["share"] - truth) < 0.02 and fitted["method"] == "beta-binomial"
        assert plug_in["share"] - truth > 0.08 and plug_in["method"] == "plug-in"
    assert dead_groups([*groups, [True] * 40], 16, spread)["method"] == "unbiased and beta-binomial"


def test_the_fit_survives_what_has_no_maximum_inside():
    for counts in ([(0, 8)] * 5, [(8, 8)] * 5, [(4, 8)] * 5, [(0, 8)] * 3 + [(8, 8)] * 3, [(1, 1)], [(0, 3), (2, 7)]):
        spread = fit_spread(counts)
        assert all(0 <= spread.all_equal(k, n, 32) <= 1 and 0 < spread.mean(k, n) < 1 for k, n in counts)
    assert fit_spread([]) is None
    assert fit_spread([(0, 8)] * 5).mean(0, 8) < 0.01 and fit_spread([(4, 8)] * 50).all_equal(4, 8, 8) == pytest.approx(2 * 0.5**8, rel=0.2)


def test_few_prompts_leave_the_spread_open():
    """Six prompts with 1 to 5 of 8 each may all be alike, or not; 600 of them are."""
    counts = [(1, 8), (2, 8), (3, 8), (3, 8), (4, 8), (5, 8)]
    few, many = fit_spread(counts), fit_spread(counts * 100)
    assert few.within(1, 8, 0.2, 0.8) < 0.9 < 0.99 < many.within(1, 8, 0.2, 0.8)


def test_pass_at_k():
    # 1 of 4 and 2 of 4: k=1: 3/8; k=2: mean of 1-C(3,2)/C(4,2)=1/2 and 1-C(2,2)/6=5/6; k=4: both.
    assert estimate([[True] + [False] * 3, [True] * 2 + [False] * 2])["pass_at_k"] == {
        "1": pytest.approx(0.375), "2": pytest.approx(2 / 3), "4": pytest.approx(1.0),
    }  # fmt: skip
    # One of ten prompts has too few samples for k = 4; three of ten are too many to leave out.
    assert set(estimate([[True, False, False, False]] * 9 + [[True]])["pass_at_k"]) == {"1", "2", "4"}
    assert set(estimate([[True, False, False, False]] * 7 + [[True]] * 3)["pass_at_k"]) == {"1"}
    assert estimate([[None]])["pass_at_k"] == {}


def test_lengths_by_outcome():
    signal = estimate([[True, False, True, None]], tokens=[3, 9, 5, 2])
    assert signal["length"]["unit"] == "tokens" and signal["length"]["pass"] == {"count": 2, "mean": 4, "median": 4, "p90": 5, "longest": 5}
    signal = estimate([[True, False]], tokens=[3, None], characters=[30, 90])
    assert (signal["length"]["unit"], signal["length"]["fail"]["median"], signal["length"]["none"]["mean"]) == ("characters", 90, None)


def test_dead_groups_differ_from_flat_groups():
    # Always wrong but with two different totals: nothing about being right, yet a gradient (from the format, say).
    signal = estimate([[False] * 4 + [True] * 4, [False] * 8], totals=[0.0, 1.0] * 8)
    assert signal["dead_groups"]["share"] == pytest.approx((2 / math.comb(8, 4) + 1) / 2)
    assert signal["flat_groups"]["share"] == pytest.approx(2 / math.comb(8, 4))
    assert list(signal["dead_groups_by_size"]) == ["4", "8", "16", "32", "64"] and list(estimate([[True]], 6)["dead_groups_by_size"])[1] == "6"


def test_a_note_says_when_nearly_all_groups_are_dead():
    signal = estimate([[True] * 8, [False] * 8] * 3)
    assert signal["verdict"] == "go" and any("100% of the groups of 4" in note for note in signal["notes"])


def test_truncation_tokens_and_duplicates():
    signal = estimate(
        [[True, False, None], [False, True, True]],
        finishes=["stop", "length", "length", "unknown", "stop", "stop"],
        tokens=[2, 8, 16, None, 4, 6],
        completions=["a", "a", "b", "a", "c", "c"],
    )
    assert signal["truncated_share"] == pytest.approx(2 / 5)
    assert signal["mean_tokens"] == {"pass": 4.0, "fail": 8.0, "none": 16.0}
    assert signal["duplicate_share"] == pytest.approx(1 - 4 / 6)  # (0,a) (0,b) (1,a) (1,c)
    prompt = signal["per_prompt"][1]
    assert (prompt["prompt_index"], prompt["scored"], prompt["passed"], prompt["rate"]) == (1, 3, 2, pytest.approx(2 / 3))
    assert prompt["interval"] == list(clopper_pearson(2, 3)) and 0.5 < prompt["expected_rate"] < 0.67  # drawn towards the other prompt's half
    assert signal["truncated_passed"] == 0
    assert estimate([[True]], finishes=["unknown"])["truncated_share"] is None


def test_clopper_pearson_against_known_values():
    assert clopper_pearson(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1, abs=1e-9))
    low, high = clopper_pearson(7, 20)  # published: 0.1539, 0.5922
    assert (round(low, 4), round(high, 4)) == (0.1539, 0.5922)
    assert clopper_pearson(60, 60)[1] == 1.0 and clopper_pearson(0, 0) == (0.0, 1.0)
    low, high = clopper_pearson(900, 2000)
    assert 0.427 < low < 0.429 and 0.471 < high < 0.473


def test_upper_bound_of_none():
    assert upper_bound_of_none(59) == pytest.approx(0.0495, abs=1e-4)
    assert upper_bound_of_none(0) == 1.0


def test_beta_cdf_is_the_binomial_tail():
    # I_x(k, n - k + 1) = P(Binomial(n, x) >= k), DLMF 8.17.5; and symmetric about the middle.
    for k, n, x in [(1, 8, 0.01), (3, 8, 0.4), (8, 8, 0.99), (40, 100, 0.37), (700, 1000, 0.7)]:
        assert beta_cdf(x, k, n - k + 1) == pytest.approx(binomial_tail(k, n, x), rel=1e-9)
    assert beta_cdf(0.5, 0.03, 0.03) == pytest.approx(0.5) and (beta_cdf(0, 2, 3), beta_cdf(1, 2, 3)) == (0.0, 1.0)
