from __future__ import annotations

import pytest
from grpo_rlvr.inspection.agreement import correlation, measure_agreement


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
