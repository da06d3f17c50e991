from __future__ import annotations

import pytest
from grpo_rlvr.inspection.probe import has_error, run_probes
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.rewards import build_rewards

from inspection.conftest import STEPS, completion

FLAWED = {
    # Each pays something that is not being right; the names are those of ways to write such a reward by accident.
    "steps": STEPS,
    "tag_only": 'def tag_only(completions, answer, **k):\n    return [float("<answer>" in c) for c in completions]\n',
    "substring": "def substring(completions, answer, **k):\n    return [float(a in c) for a, c in zip(answer, completions)]\n",
    "brevity": 'def brevity(completions, **k):\n    return [float("<answer>" in c) - 0.001 * len(c) for c in completions]\n',
}


def make_samples(texts: list[str], answers: list[str]) -> list[dict]:
    return [
        {
            "sample_id": f"s{i}",
            "prompt_index": i,
            "prompt": f"q{i}",
            "completion": t,
            "columns": {"row_id": f"train:{i}", "answer": a},
            "finish": "stop",
        }
        for i, (t, a) in enumerate(zip(texts, answers, strict=True))
    ]


def probe(config, samples: list[dict], labels: dict[str, str] | None = None) -> dict:
    rewards = build_rewards(config)
    scores, _ = score_samples(rewards, samples, 0.5)
    return run_probes(rewards, samples, scores, 0.5, labels)[0]


def test_an_honest_reward_punishes_every_mutant(project):
    samples = make_samples([completion(15), completion(99), completion(17)], ["15", "16", "17"])
    finding = probe(project.write(), samples)
    assert (finding["severity"], finding["originals"], finding["mutants"], finding["unpunished"]) == ("ok", 2, 6, 0)
    assert finding["correlation"]["against"] == "verdicts" and finding["correlation"]["r"] == pytest.approx(1.0)
    assert not has_error([finding])


@pytest.mark.parametrize("name", ["steps", "tag_only", "brevity"])
def test_flawed_rewards_are_caught(project, name):
    (project.folder / f"{name}.py").write_text(FLAWED[name])
    samples = make_samples([completion(15, "1=1"), completion(160, "2"), completion(17, "3=3")], ["15", "16", "17"])
    finding = probe(project.write(f"  - {{use: '{name}.py:{name}'}}"), samples)
    assert finding["severity"] == "error" and finding["unpunished"] == finding["mutants"] == 9
    assert has_error([finding])


def test_perfect_correlation_does_not_save_a_reward(project):
    """Right completions show their work with '='; the reward counts '=' and agrees with every reader."""
    samples = make_samples(
        [completion(15, "10+5=15=15"), completion(0, ""), completion(17, "12+5=17=17"), completion(1, "")], ["15", "16", "17", "18"]
    )
    labels = {"s0": "pass", "s1": "fail", "s2": "pass", "s3": "fail"}
    finding = probe(project.write("  - {use: 'steps.py:steps'}"), samples, labels)
    assert finding["correlation"] == {**finding["correlation"], "against": "labels", "r": pytest.approx(1.0), "pairs": 4}
    assert finding["severity"] == "error" and finding["source"] == "label pass" and finding["mutants"] == finding["unpunished"] == 6


def test_substring_reward_is_caught_where_the_work_repeats_the_answer(project):
    (project.folder / "substring.py").write_text(FLAWED["substring"])
    samples = make_samples([completion(15, "10+5=15"), completion(16)], ["15", "16"])
    finding = probe(project.write("  - {use: 'substring.py:substring'}"), samples)
    assert (finding["mutants"], finding["unpunished"]) == (6, 3)  # only where the gold also stands in the work


def test_the_smallest_proof_is_shown_with_both_scores(project):
    samples = make_samples([completion(15, "long " * 9), completion(16, "s"), completion(17, "longer")], ["15", "16", "17"])
    example = probe(project.write("  - {use: 'steps.py:steps'}"), samples)["example"]
    assert example["sample_id"] == "s1" and example["original"]["answer"] == "16" and example["mutant"]["answer"] == "17"
    assert example["mutant"]["completion"] == completion(17, "s")
    assert example["original"]["total"] == example["mutant"]["total"] == 0.5 and example["mutant"]["verdict"] is True


def test_a_total_that_stays_is_unpunished_even_if_the_verdict_fell(project):
    """Exact match decides the verdict, but a second reward takes back what it takes away."""
    (project.folder / "wrong.py").write_text(
        'def wrong(completions, answer, **k):\n    return [float(f"<answer>{a}<" not in c) for a, c in zip(answer, completions)]\n'
    )
    config = project.write("  - {use: exact}\n  - {use: 'wrong.py:wrong', required: false}")
    finding = probe(config, make_samples([completion(15)], ["15"]))
    assert finding["severity"] == "error" and finding["unpunished"] == 3
    assert finding["example"]["mutant"]["verdict"] is False and finding["example"]["mutant"]["total"] == 1.0


def test_labelled_passes_go_before_mere_verdicts(project):
    samples = make_samples([completion(15), completion(16)], ["15", "16"])
    finding = probe(project.write(), samples, {"s1": "pass", "s0": "unsure"})
    assert (finding["source"], finding["originals"]) == ("label pass", 1)


def test_nothing_to_mutate_is_a_warning(project):
    finding = probe(project.write(), make_samples([completion(1)], ["15"]))
    assert finding["severity"] == "warning" and "no sample is accepted" in finding["message"]
    (project.folder / "any.py").write_text("def any_text(completions, **k):\n    return [1.0] * len(completions)\n")
    finding = probe(project.write("  - {use: 'any.py:any_text'}"), make_samples(["just words"], ["15"]))
    assert finding["severity"] == "warning" and "none of the 1 accepted" in finding["message"]


def test_equal_completions_are_attacked_once(project):
    samples = make_samples([completion(15)] * 3, ["15"] * 3)
    for i, sample in enumerate(samples):
        sample.update(prompt_index=0, sample_id=f"abc-{i}" if i else "abc")
    assert probe(project.write(), samples)["mutants"] == 3


def test_schema_rewards_are_attacked_with_json_that_breaks_the_schema(project):
    schema = '{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}'
    sample = {"sample_id": "s", "prompt_index": 0, "prompt": "q", "completion": '{"a": 1}', "columns": {"output_schema": schema}, "finish": "stop"}
    finding = probe(project.write("  - {use: schema}"), [sample])
    assert (finding["severity"], finding["mutants"], finding["unpunished"]) == ("ok", 3, 0)
    (project.folder / "loose.py").write_text(
        "import json\ndef loose(completions, output_schema):\n    return [float(bool([json.loads(c)])) for c in completions]\n"
    )
    assert probe(project.write("  - {use: 'loose.py:loose'}"), [sample])["unpunished"] == 3


def test_deterministic(project):
    samples = make_samples([completion(15, "a"), completion(16, "b"), completion(17, "c")], ["15", "16", "17"])
    config = project.write("  - {use: 'steps.py:steps'}")
    assert probe(config, samples) == probe(config, samples)
