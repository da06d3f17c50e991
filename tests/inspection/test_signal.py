"""Numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from grpo_rlvr.inspection.signal import dead_groups, estimate_signal
from grpo_rlvr.intervals import clopper_pearson, effective_size, upper_bound_of_none, wilson


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
    assert dead_groups([group], 2) == {"size": 2, "share": pytest.approx(7 / 15), "method": "unbiased"}
    assert dead_groups([group], 3)["share"] == pytest.approx(0.2)


def test_dead_groups_plug_in_below_group_size():
    group = [True, False, False, False]
    assert dead_groups([group], 8) == {"size": 8, "share": pytest.approx(0.25**8 + 0.75**8), "method": "plug-in"}
    assert dead_groups([group, [True] * 8], 8) == {"size": 8, "share": pytest.approx((0.25**8 + 0.75**8 + 1) / 2), "method": "mixed"}


def test_dead_groups_differ_from_flat_groups():
    # Always wrong but with two different totals: nothing about being right, yet a gradient (from the format, say).
    signal = estimate([[False] * 4 + [True] * 4, [False] * 8], totals=[0.0, 1.0] * 8)
    assert signal["dead_groups"]["share"] == pytest.approx((2 / math.comb(8, 4) + 1) / 2)
    assert signal["flat_groups"]["share"] == pytest.approx(2 / math.comb(8, 4))
    assert set(signal["dead_groups_by_size"]) == {"4", "8", "16", "32"}


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
    assert signal["per_prompt"][1] == {"prompt_index": 1, "scored": 3, "passed": 2, "rate": pytest.approx(2 / 3)}
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
