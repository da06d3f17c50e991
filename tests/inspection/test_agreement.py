from __future__ import annotations

import pytest
from grpo_rlvr.inspection.agreement import cohens_kappa, correlation, disagrees, measure_agreement, weigh_agreement


def test_table_agreement_and_kappa_by_hand():
    labels = ["pass"] * 25 + ["fail"] * 25 + ["unsure"] * 2 + ["pass"]
    verdicts = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15 + [True, None] + [None]
    got = measure_agreement(labels, verdicts)
    assert got["table"] == {
        "pass": {"pass": 20, "fail": 5, "none": 1},
        "fail": {"pass": 10, "fail": 15, "none": 0},
        "unsure": {"pass": 1, "fail": 0, "none": 1},
    }
    assert (got["compared"], got["disagreements"], got["agreement"]) == (50, 15, 0.7)
    assert got["kappa"] == pytest.approx(0.4)  # Cohen's textbook example: (0.7 - 0.5) / 0.5
    assert got["none_share"] == pytest.approx(2 / 53) and got["unsure_share"] == pytest.approx(2 / 53)
    assert got["upper_bounds"] is None


def test_no_disagreement_states_what_it_proves():
    got = measure_agreement(["pass"] * 20 + ["fail"] * 40, [True] * 20 + [False] * 40)
    assert got["kappa"] == 1.0
    assert got["upper_bounds"] == pytest.approx({"pass": 1 - 0.05 ** (1 / 20), "fail": 1 - 0.05 ** (1 / 40)})


def test_kappa_is_undefined_when_all_is_one_class():
    assert measure_agreement(["pass"] * 3, [True] * 3)["kappa"] is None


def test_nothing_read():
    got = measure_agreement([], [])
    assert got["agreement"] is None and got["interval"] == [0.0, 1.0] and got["kappa"] is None


def test_correlation():
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1.0)
    assert correlation([1, 2, 3, 4], [1, 0, 1, 0]) == pytest.approx(-0.4472136)
    assert correlation([1, 1], [0, 1]) is None and correlation([1], [1]) is None


def test_the_weighted_agreement_by_hand():
    """40 of 200 completions pass; of 10 passing and 10 failing ones that were read, one passing is wrong: 1 - 0.2 x 0.1."""
    ids = [f"s{i}" for i in range(21)]
    labels, verdicts = ["pass"] * 9 + ["fail"] * 11 + ["unsure"], [True] * 10 + [False] * 10 + [True]
    everything = [True] * 40 + [False] * 160
    got = weigh_agreement(ids, labels, verdicts, everything, None)
    assert got["agreement"] == pytest.approx(0.98) and got["weights"] == "verdict" and got["upper_bound"] is None
    assert got["effective_size"] == pytest.approx(200**2 / (10 * 4**2 + 10 * 16**2)) and got["interval"][0] < 0.98 < got["interval"][1]
    same = weigh_agreement(ids, labels, verdicts, everything, dict.fromkeys(ids, 1.0))
    assert same["agreement"] == pytest.approx(0.95) and same["effective_size"] == pytest.approx(20) and same["weights"] == "selection"


def test_what_no_disagreement_proves_about_all_completions():
    got = weigh_agreement(list("abcd"), ["pass", "pass", "fail", "fail"], [True, True, False, False], [True] * 10 + [False] * 30, None)
    assert got["upper_bound"] == pytest.approx(0.25 * (1 - 0.025**0.5) + 0.75 * (1 - 0.025**0.5))
    one_sided = weigh_agreement(["a"], ["pass"], [True], [True, False], None)
    assert one_sided["upper_bound"] == pytest.approx(0.5 * 0.975 + 0.5)  # of the failing ones nothing is known
    assert weigh_agreement([], [], [], [True], None)["agreement"] is None


def test_kappa_of_three_categories_by_hand():
    pairs = [("pass", "pass")] * 4 + [("fail", "fail")] * 3 + [("unsure", "unsure")] + [("pass", "fail"), ("unsure", "pass")]
    assert cohens_kappa(pairs) == pytest.approx((0.8 - 0.39) / (1 - 0.39))
    assert cohens_kappa([]) is None and cohens_kappa([("a", "a")]) is None


def test_unsure_and_unscored_contradict_nothing():
    assert disagrees("pass", False) and disagrees("fail", True)
    assert not any(disagrees(label, v) for label, v in (("pass", True), ("fail", False), ("unsure", True), ("withdrawn", False), ("pass", None)))
