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
    assert (finding["severity"], finding["originals"], finding["mutants"], finding["unpunished"]) == ("ok", 2, 18, 0)
    assert finding["correlation"]["against"] == "verdicts" and finding["correlation"]["r"] == pytest.approx(1.0)
    assert not has_error([finding])


@pytest.mark.parametrize("name", ["steps", "tag_only", "brevity"])
def test_flawed_rewards_are_caught(project, name):
    (project.folder / f"{name}.py").write_text(FLAWED[name])
    samples = make_samples([completion(15, "1=1"), completion(160, "2"), completion(17, "3=3")], ["15", "16", "17"])
    finding = probe(project.write(f"  - {{use: '{name}.py:{name}'}}"), samples)
    assert finding["severity"] == "error" and finding["unpunished"] == finding["mutants"] == 27
    assert has_error([finding])


def test_perfect_correlation_does_not_save_a_reward(project):
    """Right completions show their work with '='; the reward counts '=' and agrees with every reader."""
    samples = make_samples(
        [completion(15, "10+5=15=15"), completion(0, ""), completion(17, "12+5=17=17"), completion(1, "")], ["15", "16", "17", "18"]
    )
    labels = {"s0": "pass", "s1": "fail", "s2": "pass", "s3": "fail"}
    finding = probe(project.write("  - {use: 'steps.py:steps'}"), samples, labels)
    assert finding["correlation"] == {**finding["correlation"], "against": "labels", "r": pytest.approx(1.0), "pairs": 4}
    assert finding["severity"] == "error" and finding["source"] == "label pass" and finding["mutants"] == finding["unpunished"] == 18


def test_substring_reward_is_caught_where_the_work_repeats_the_answer(project):
    (project.folder / "substring.py").write_text(FLAWED["substring"])
    samples = make_samples([completion(15, "10+5=15"), completion(16)], ["15", "16"])
    finding = probe(project.write("  - {use: 'substring.py:substring'}"), samples)
    # Where the gold also stands in the work all are paid; else those that contain it: -16, 160, 1016, 16.5 and the one hidden in a list.
    assert (finding["mutants"], finding["unpunished"]) == (18, 9 + 5)


def test_the_smallest_proof_is_shown_with_both_scores(project):
    samples = make_samples([completion(15, "long " * 9), completion(16, "s"), completion(17, "longer")], ["15", "16", "17"])
    example = probe(project.write("  - {use: 'steps.py:steps'}"), samples)["example"]
    assert example["sample_id"] == "s1" and example["original"]["answer"] == "16" and example["mutant"]["answer"] == ""
    assert example["mutant"]["completion"] == completion("", "s")
    assert example["original"]["total"] == example["mutant"]["total"] == 0.5 and example["mutant"]["verdict"] is True


def test_a_total_that_stays_is_unpunished_even_if_the_verdict_fell(project):
    """Exact match decides the verdict, but a second reward takes back what it takes away."""
    (project.folder / "wrong.py").write_text(
        'def wrong(completions, answer, **k):\n    return [float(f"<answer>{a}<" not in c) for a, c in zip(answer, completions)]\n'
    )
    config = project.write("  - {use: exact}\n  - {use: 'wrong.py:wrong', required: false}")
    finding = probe(config, make_samples([completion(15)], ["15"]))
    assert finding["severity"] == "error" and finding["unpunished"] == 9
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
    assert probe(project.write(), samples)["mutants"] == 9


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


TAG = "import re\ndef tag(c):\n    return re.search('<answer>(.*)</answer>', c)[1]\n"


def own(project, expression: str, more: str = ""):
    """A config with a reward of its own: `expression` says whether c's answer is the gold a."""
    name = f"own{len(list(project.folder.glob('own*.py')))}"  # a file is loaded once a process
    (project.folder / f"{name}.py").write_text(
        f"{TAG}def num(s):\n    try: return float(s)\n    except ValueError: return float('nan')\n"
        f"def own(completions, answer):\n    return [{expression} for c, a in zip(completions, answer)]\n"
    )
    return project.write(f"  - {{use: '{name}.py:own'}}" + more)


def all_findings(config, samples: list[dict]) -> dict[str, dict]:
    rewards = build_rewards(config)
    scores, _ = score_samples(rewards, samples, 0.5)
    return {f["probe"]: f for f in run_probes(rewards, samples, scores, 0.5)}


@pytest.mark.parametrize(
    "expression",
    [
        "float(tag(c) in a)",
        "float(a in tag(c))",
        "float(a.startswith(tag(c)))",
        "float(tag(c).startswith(a))",
        "float(re.sub(r'\\D', '', tag(c)) == a)",
        "float(abs(num(tag(c))) == abs(float(a)))",
        "float(a in re.findall(r'\\d+', tag(c)))",
    ],
)
def test_careless_comparisons_are_caught(project, expression):
    samples = make_samples([completion(15), completion(16), completion(99)], ["15", "16", "17"])
    finding = all_findings(own(project, expression), samples)["mutated_answer"]
    assert finding["severity"] == "error" and 0 < finding["unpunished"] < finding["mutants"]


@pytest.mark.parametrize("use", ["exact", "math", "format"])
def test_built_in_rewards_raise_no_false_alarm(project, use):
    golds = [
        "15", "-5", "0", "1", "-1", "1,200", "2024", "0.5", "-1.5", ".25", "1/2", r"\frac{1}{2}", r"\frac{\pi}{2}", "50%", r"12\%", "x+1",
        "2x+2", "2(x+1)", "(0,1)", r"\left(0, 1\right)", "[0,1]", "1, 2, 3", r"\sqrt{2}", r"\pm 2", "|x|", "x=5", "Paris", "paris",
        "St. Paul", "A", "B", "yes", "no", "2024-03-15", "March 5", "3:00 PM", "15 or 16", "5 m", r"15\text{ m}^2", r"\text{Evelyn}",
        "x^2", "10^{3}", r"0 \le x \le 1", r"\cos 2", "|2|",
    ]  # fmt: skip
    samples = make_samples([completion(g, "work") for g in golds], golds)
    config = project.write(f"  - {{use: {use}}}" if use != "format" else "  - {use: exact}\n  - {use: format, weight: 0.2}")
    findings = all_findings(config, samples)
    grave = {f["probe"]: f["message"] for f in findings.values() if f["severity"] != "ok"}
    # An exact match takes a hyphen for a minus, and nothing else.
    assert set(grave) <= ({"honest_rewriting"} if use != "math" else set()) and all(
        "(a typographic minus (2 of 2))" in m or "a typographic minus (2 of 2);" in m for m in grave.values()
    ), grave
    assert findings["mutated_answer"]["mutants"] > 5 * len(golds) - 60


def test_a_reward_that_raises_on_a_wrong_answer_is_a_finding_of_its_own(project):
    samples = make_samples([completion(15), completion(16)], ["15", "16"])
    findings = all_findings(own(project, "float(float(tag(c)) == float(a))"), samples)
    raised = findings["reward_raises"]
    assert raised["severity"] == "error" and raised["unpunished"] > 4 and "raises ValueError: could not convert" in raised["message"]
    assert raised["example"]["mutant"]["completion"] == "<answer></answer>" and raised["example"]["mutant"]["total"] is None
    assert findings["mutated_answer"]["severity"] == "ok" and findings["mutated_answer"]["mutants"] == 18
    assert "14 wrong answers" in findings["mutated_answer"]["message"]


def test_unscored_mutants_are_not_punished_ones(project):
    samples = make_samples([completion(15), completion(16)], ["15", "16"])
    finding = all_findings(own(project, "1.0 if tag(c) == a else None"), samples)["mutated_answer"]
    assert finding["severity"] == "error" and "none of 18 wrong answers could be scored" in finding["message"]
    finding = all_findings(own(project, "1.0 if tag(c) == a else 0.0 if len(tag(c)) > 2 else None"), samples)["mutated_answer"]
    assert (finding["severity"], finding["unscored"]) == ("warning", 6) and "6 of 18 wrong answers could not be scored" in finding["message"]


def test_a_tolerance_is_a_warning_that_names_it(project):
    samples = make_samples([completion(1000), completion(2000)], ["1000", "2000"])
    finding = all_findings(own(project, "float(abs(num(tag(c)) - float(a)) <= 0.05 * float(a))"), samples)["mutated_answer"]
    assert finding["severity"] == "warning" and finding["message"].startswith("pays '1001' for '1000': a tolerance? 6 of 16")


def test_only_so_many_are_attacked_and_it_is_said(project, monkeypatch):
    import grpo_rlvr.inspection.probes.mutated as module

    monkeypatch.setattr(module, "MOST", 3)
    golds = [f"word{chr(97 + i)}" for i in range(10)]
    finding = all_findings(project.write(), make_samples([completion(g) for g in golds], golds))["mutated_answer"]
    assert finding["originals"] == 3 and "(3 of 10 accepted completions were attacked, evenly spread)" in finding["message"]


def test_word_answers_do_not_cost_the_square_of_their_number(monkeypatch):
    import grpo_rlvr.inspection.mutate as module

    asked = []
    monkeypatch.setattr(module, "clearly_differs", lambda new, right: asked.append(new) or True)
    module.wrong_answers("Paris", ["Paris"], [f"city{'x' * i}" for i in range(5000)])
    assert asked == ["city", "cityx"]


def test_a_sum_that_pays_wrong_completions_more_is_an_error(project):
    (project.folder / "size.py").write_text("def size(completions):\n    return [min(1.0, len(c) / 100) for c in completions]\n")
    samples = make_samples([completion(15), completion(14, "so " * 20), completion(16), completion(1)], ["15", "15", "16", "16"])
    for i, sample in enumerate(samples):
        sample["prompt_index"] = i // 2
    rewards = "  - {use: exact}\n  - {use: 'size.py:size', weight: WEIGHT, required: false}"
    finding = all_findings(project.write(rewards.replace("WEIGHT", "10")), samples)["totals"]
    assert (finding["severity"], finding["share"]) == ("warning", 0.5) and "in 1 of 2 prompts" in finding["message"]
    assert {k: v["completion"] for k, v in finding["example"]["pair"].items()} == {"passes": completion(15), "fails": completion(14, "so " * 20)}
    assert all_findings(project.write(rewards.replace("WEIGHT", "10")), samples[:2])["totals"]["severity"] == "error"
    assert all_findings(project.write(rewards.replace("WEIGHT", "0.1")), samples)["totals"]["severity"] == "ok"


def test_a_reward_that_looks_at_its_neighbours_is_an_error(project):
    (project.folder / "first.py").write_text(
        "def first(completions, answer):\n    return [float(f'>{a}<' in c and c == max(completions)) for c, a in zip(completions, answer)]\n"
    )
    samples = make_samples([completion(18), *[completion(n) for n in range(10, 18)]], ["18", *map(str, range(10, 18))])
    samples += make_samples([completion(20)], ["20"])
    finding = all_findings(project.write("  - {use: 'first.py:first'}"), samples)["batch_independence"]
    assert finding["severity"] == "error"  # only one is accepted in the whole batch, others are in smaller ones
    (project.folder / "odd.py").write_text("def odd(completions, **k):\n    return [float(i % 2) for i in range(len(completions))]\n")
    finding = all_findings(project.write("  - {use: 'odd.py:odd'}"), samples)["batch_independence"]
    assert finding["severity"] == "error" and "odd scores the same completion otherwise" in finding["message"]
    assert {half["total"] for half in finding["example"]["pair"].values()} == {0.0, 1.0}
