from __future__ import annotations

from collections import Counter

import pytest
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.select import load_selection, select_samples


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
