from __future__ import annotations

from collections import Counter

import pytest
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.select import load_selection, load_weights, save_selection, select_rows, select_samples


def make(verdicts: list, finish: str = "stop", prompts: int = 10) -> tuple[list[dict], list]:
    samples = [
        {"sample_id": f"s{i}", "prompt_index": i % prompts, "prompt": "p", "completion": f"c{i}", "finish": finish} for i in range(len(verdicts))
    ]
    return samples, verdicts


def count_verdicts(ids: list[str], verdicts: list) -> Counter:
    return Counter(verdicts[int(i[1:])] for i in ids)


def test_halves_where_both_sides_have_enough():
    samples, verdicts = make([i % 10 == 0 for i in range(200)])  # 20 pass, 180 fail
    assert count_verdicts(select_samples(samples, verdicts, 30, 0), verdicts) == {True: 15, False: 15}


def test_a_rare_side_is_taken_whole():
    samples, verdicts = make([i in (3, 77) for i in range(100)])
    ids = select_samples(samples, verdicts, 20, 0)
    assert {"s3", "s77"} <= set(ids) and len(ids) == 20


def test_unscored_get_a_tenth():
    samples, verdicts = make([None] * 50 + [True] * 50 + [False] * 50)
    assert count_verdicts(select_samples(samples, verdicts, 20, 0), verdicts) == {None: 2, True: 9, False: 9}


def test_unscored_fill_what_the_others_lack():
    samples, verdicts = make([None] * 50 + [True] * 3)
    assert count_verdicts(select_samples(samples, verdicts, 20, 0), verdicts) == {None: 17, True: 3}


def test_a_rare_finish_is_not_lost():
    samples, verdicts = make([True] * 100 + [False] * 100)
    samples[150]["finish"] = "length"
    assert "s150" in select_samples(samples, verdicts, 10, 0)


def test_equal_completions_are_read_once():
    samples, verdicts = make([True] * 40, prompts=1)
    for i, sample in enumerate(samples):
        sample["completion"] = f"c{i % 3}"
    assert len(select_samples(samples, verdicts, 20, 0)) == 3
    ids = select_samples(samples, verdicts, 20, 0, keep={"s30"})
    assert ids[0] == "s30" and len(ids) == len(set(ids)) == 3 and sorted(int(i[1:]) % 3 for i in ids) == [0, 1, 2]


def test_prompts_take_turns():
    samples, verdicts = make([True] * 100, prompts=10)
    assert Counter(int(i[1:]) % 10 for i in select_samples(samples, verdicts, 20, 0)) == dict.fromkeys(range(10), 2)


def test_deterministic_by_seed_and_order_hides_the_verdict():
    samples, verdicts = make([True] * 50 + [False] * 50)
    first = select_samples(samples, verdicts, 20, 0)
    assert first == select_samples(samples, verdicts, 20, 0) != select_samples(samples, verdicts, 20, 1)
    changes = sum(verdicts[int(a[1:])] != verdicts[int(b[1:])] for a, b in zip(first, first[1:], strict=False))
    assert changes >= 4


def test_what_was_read_stays():
    samples, verdicts = make([True] * 50 + [False] * 50)
    ids = select_samples(samples, verdicts, 10, 0, keep={"s1", "s2", "s3"})
    assert ids[:3] == ["s1", "s2", "s3"] and count_verdicts(ids, verdicts) == {True: 5, False: 5}
    assert select_samples(samples, verdicts, 2, 0, keep={"s1", "s2", "s3"}) == ["s1", "s2", "s3"]


def test_no_selection_yet(tmp_path):
    with pytest.raises(UserError, match="no samples have been selected"):
        load_selection(tmp_path)


@pytest.mark.parametrize("text", ["[1]", '{"sample_ids": 5}', '{"sample_ids": [[1]]}', '{"sample_ids": "ab"}', '{"sample_ids": null}', "{}", "{"])
def test_a_selection_of_the_wrong_kind_is_named(tmp_path, text):
    (tmp_path / "selection.json").write_text(text)
    with pytest.raises(UserError, match=r"selection\.json: cannot be read[\s\S]*inspect_rewards\.py run CONFIG"):
        load_selection(tmp_path)


def rows_of(samples: list[dict], scores: list[dict], count: int, seed: int = 0, keep=(), weights=None) -> dict[str, dict]:
    return {row["sample_id"]: row for row in select_rows(samples, scores, count, seed, keep, weights)}


def scored(verdicts: list, **components: list) -> list[dict]:
    return [{"verdict": v, "scores": {name: values[i] for name, values in components.items()}} for i, v in enumerate(verdicts)]


def test_weights_add_up_to_the_samples_and_to_each_stratum():
    samples, verdicts = make([i % 10 == 0 for i in range(200)], prompts=7)
    rows = rows_of(samples, scored(verdicts), 30)
    assert sum(r["weight"] for r in rows.values()) == pytest.approx(200)
    assert sum(r["weight"] for i, r in rows.items() if verdicts[int(i[1:])]) == pytest.approx(20)
    assert {r["stratum"] for r in rows.values()} == {"pass/stop", "fail/stop"} and not any(r["kept"] for r in rows.values())


def test_components_that_disagree_and_odd_lengths_are_strata_of_their_own():
    verdicts = [True] * 60 + [False] * 60
    form = [1.0] * 59 + [0.0] + [0.0] * 59 + [1.0]
    samples, _ = make(verdicts)
    for i, sample in enumerate(samples):
        sample["completion"] = f"word{i} " * (400 if i == 7 else 1 if i == 70 else 40)
    rows = rows_of(samples, scored(verdicts, answer=[float(v) for v in verdicts], form=form), 20)
    for one, stratum in (
        ("s59", "pass/stop/components disagree"),
        ("s119", "fail/stop/components disagree"),
        ("s7", "pass/stop/long"),
        ("s70", "fail/stop/short"),
    ):
        assert rows[one]["stratum"] == stratum and rows[one]["weight"] == pytest.approx(1.0)
    assert len(rows) == 20 and sum(r["weight"] for r in rows.values()) == pytest.approx(120)


def test_nearly_equal_completions_are_read_once_and_weigh_as_many():
    samples, verdicts = make([True] * 40 + [False] * 40, prompts=1)
    shared = " ".join(f"step{k}" for k in range(400))
    for sample in samples[:30]:
        sample["completion"] = f"{shared} {sample['sample_id']}"
    rows = rows_of(samples, scored(verdicts), 20)
    alike = [i for i in rows if int(i[1:]) < 30]
    assert 1 <= len(alike) <= 4  # a word more at the end seldom changes the sketch
    # With hardly enough others they are read after all: only equal ones never are.
    assert sum(int(i[1:]) < 30 for i in rows_of(samples, scored(verdicts), 75)) > 20
    # Scored otherwise, they are not alike, however alike they look.
    assert "s5" in rows_of(samples, scored([i != 5 and v for i, v in enumerate(verdicts)]), 60)


def weighted_share(rows: dict[str, dict], truth: list[bool]) -> float:
    total = sum(r["weight"] for r in rows.values())
    return sum(r["weight"] * truth[int(i[1:])] for i, r in rows.items()) / total


def test_the_weighted_share_is_right_on_average_where_the_plain_one_is_not():
    verdicts = [i < 20 for i in range(120)]
    truth = [v != (i % 4 == 0) for i, v in enumerate(verdicts)]  # the reward errs on a quarter of both
    samples, _ = make(verdicts, prompts=23)
    found = [rows_of(samples, scored(verdicts), 24, seed) for seed in range(300)]
    right = sum(truth) / 120
    assert sum(weighted_share(rows, truth) for rows in found) / 300 == pytest.approx(right, abs=0.015)  # its standard error is 0.006
    assert sum(sum(truth[int(i[1:])] for i in rows) / len(rows) for rows in found) / 300 > right + 0.1


@pytest.mark.parametrize("more", [0, 12])
def test_after_a_mended_reward_the_labels_stay_and_the_estimate_stays_right(more):
    verdicts = [i < 20 for i in range(120)]
    truth = [i % 3 == 0 for i in range(120)]
    mended = [t if i % 5 else not t for i, t in enumerate(truth)]
    samples, _ = make(verdicts, prompts=120)
    shares = []
    for seed in range(300):
        first = rows_of(samples, scored(verdicts), 24, seed)
        second = rows_of(samples, scored(mended), 24 + more, seed, keep=first, weights={i: r["weight"] for i, r in first.items()})
        assert set(first) <= set(second) and len(second) == 24 + more and sum(r["kept"] for r in second.values()) == 24
        assert sum(r["weight"] for r in second.values()) == pytest.approx(120)
        shares.append(weighted_share(second, truth))
    assert sum(shares) / 300 == pytest.approx(sum(truth) / 120, abs=0.02)


def test_a_first_selection_without_weights_is_weighed_by_verdict(tmp_path):
    samples, verdicts = make([i % 10 == 0 for i in range(200)])
    rows = rows_of(samples, scored(verdicts), 4, keep={"s0", "s1", "s2", "s3"})
    assert {i: r["weight"] for i, r in rows.items()} == pytest.approx({"s0": 20, "s1": 60, "s2": 60, "s3": 60})
    save_selection(tmp_path, list(rows), 0)
    assert load_weights(tmp_path) == {}
    save_selection(tmp_path, list(rows.values()), 0, 200)
    assert load_weights(tmp_path) == {"s0": 20, "s1": 60, "s2": 60, "s3": 60}
    (tmp_path / "selection.json").write_text('{"rows": [{"sample_id": "a"}]}')
    assert load_weights(tmp_path) == {} == load_weights(tmp_path / "nowhere")
