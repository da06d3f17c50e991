"""What the golds themselves say where nothing is right: whether they are paid, and whether they fit the limit."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import pytest
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.signal_gold import length_findings, measure_golds, payment, token_counter
from grpo_rlvr.rewards.answers import make_correctness_reward
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.rewards.registry import BuiltReward

from inspection.test_signal import estimate

ROWS = [{"prompt": f"{n}=?", "answer": str(n), "row_id": f"train:{10 + i}"} for i, n in enumerate((7, 12, 1234))]


def exact() -> BuiltReward:
    return BuiltReward("exact", make_correctness_reward(), columns=("answer",))


def own(completions, **columns):
    return [0.0] * len(completions)


@dataclass
class Prefixed:
    """A user's reward that wants words of its own before the gold."""

    __name__ = "prefixed"
    pays: bool

    def __call__(self, completions, answer, **columns):
        return [float(self.pays and c.endswith(f"= {a}")) for c, a in zip(completions, answer, strict=True)]

    def honest_forms(self, gold):
        return [f"so = {gold}"]


# ---- the length that the gold itself needs
def test_the_shortest_form_of_each_row_is_measured():
    # Counted in characters: <answer></answer> has 17.
    golds = measure_golds([exact()], ROWS, len, limit=20)
    assert golds == {"rows": 3, "median": 19, "longest": 21, "limit": 20, "over": [2], "reward": "exact", "certain": True}
    # Of several rewards that must all be satisfied the one that needs most counts.
    prefixed = BuiltReward("prefixed", Prefixed(True), columns=("answer",))
    assert measure_golds([prefixed], ROWS, len, 20)["longest"] == 9
    assert measure_golds([prefixed, exact()], ROWS, len, 20)["longest"] == 21
    format_only = BuiltReward("aside", make_correctness_reward(), required=False, columns=("answer",))
    assert measure_golds([prefixed, format_only], ROWS, len, 20)["longest"] == 9
    assert measure_golds([BuiltReward("own", own, columns=("answer",))], ROWS, len, 20) is None
    assert measure_golds([exact()], ROWS, None, 20) is None


def test_a_form_that_is_short_in_characters_may_be_long_in_tokens():
    @dataclass
    class Two(Prefixed):
        def honest_forms(self, gold):
            return ["##", "# long in characters"]

    count = {"##": 9, "# long in characters": 2}.__getitem__
    assert measure_golds([BuiltReward("two", Two(True), columns=("answer",))], ROWS, count, limit=4)["over"] == []


def test_a_gold_that_does_not_fit_is_an_error_with_the_numbers():
    (found,) = length_findings(measure_golds([exact()], ROWS, len, 20), ROWS)
    assert (found["check"], found["severity"], found["reward"], found["rows"]) == ("gold_length", "error", "exact", [12])
    assert found["message"].startswith("the gold of 1 of 3 rows takes more tokens than max_completion_length 20 allows (median 19, longest 21)")
    assert "no right answer can be written" in found["message"] and "max_completion_length" in found["fix"]
    assert length_findings(measure_golds([exact()], ROWS, len, 21), ROWS) == [] and length_findings(None, ROWS) == []
    many = ROWS[:1] * 19 + ROWS[2:]
    (few,) = length_findings(measure_golds([exact()], many, len, 20), many)
    assert few["severity"] == "warning"  # one of twenty: those rows cannot be earned, the others can


def test_a_reference_solution_is_no_proof_of_the_shortest():
    @dataclass
    class Solved(Prefixed):
        def honest_forms_of_row(self, row, gold):
            return ["a long solution that works"]

    golds = measure_golds([BuiltReward("solved", Solved(True), columns=("answer",))], ROWS, len, 9)
    (found,) = length_findings(golds, ROWS)
    assert found["severity"] == "warning" and "no right answer" not in found["message"]


def note_of(golds, groups=((False,) * 8,) * 4, cut=6) -> str:
    finishes = (["length"] * cut + ["stop"] * (8 - cut)) * 4
    (note,) = [n for n in estimate([list(g) for g in groups], finishes=finishes, golds=golds)["notes"] if "cut off" in n]
    return note


def test_a_model_that_does_not_end_is_not_told_to_write_longer():
    golds = {"rows": 40, "median": 6, "longest": 6, "limit": 12, "over": []}
    note = note_of(golds)
    assert note.startswith("75% of the completions were cut off at max_completion_length 12, which holds the longest gold (6 tokens) 2 times over")
    assert "none of the 8 that ended is right" in note and "the model does not end its answers" in note and "raise it, or" not in note


@pytest.mark.parametrize(
    ("golds", "groups", "cut", "said"),
    [
        (None, ((False,) * 8,) * 4, 6, "75% of the completions were cut off at max_completion_length: raise it, or the reward judges torsos"),
        # What ends is sometimes right: the others want room.
        ({"median": 6, "longest": 6, "limit": 12, "over": []}, ((False,) * 7 + (True,),) * 4, 6, "length 12 (the gold takes 6 tokens): raise it, or"),
        ({"median": 6, "longest": 7, "limit": 12, "over": []}, ((False,) * 8,) * 4, 6, "(the gold takes 6 tokens, the longest 7): raise it, or"),
        ({"median": 6, "longest": 14, "limit": 12, "over": [3]}, ((False,) * 8,) * 4, 6, "(the gold takes 6 tokens, the longest 14): raise it, or"),
        ({"median": 6, "longest": 6, "limit": 12, "over": []}, ((False,) * 8,) * 4, 8, "none ended: the model does not end its answers"),
    ],
)  # fmt: skip
def test_otherwise_the_limit_is_named(golds, groups, cut, said):
    assert said in note_of(golds, groups, cut)


# ---- whether the golds are paid
def paid(*rewards: BuiltReward) -> str:
    return payment(rewards, ROWS, check_dataset(rewards, ROWS))


def test_a_gold_that_is_paid_is_said_with_the_rows_it_was_tried_on():
    assert paid(exact()) == "the reward pays the gold itself: tried on 3 rows"
    assert paid(exact(), BuiltReward("form", own, required=False)) == "the reward pays the gold itself: tried on 3 rows"
    prefixed = BuiltReward("prefixed", Prefixed(True), columns=("answer",))
    assert paid(exact(), prefixed) == "the rewards exact, prefixed pay the gold itself: tried on 3 rows"


def test_a_gold_that_is_refused_is_said():
    assert paid(BuiltReward("prefixed", Prefixed(False), columns=("answer",))) == "the reward prefixed refuses the gold itself in 3 of 3 rows"


def test_what_nothing_confirms_is_said():
    # It refuses tag, box and plain text; that is a note of the data check, since its format is unknown.
    said = paid(exact(), BuiltReward("own", own, columns=("answer",)))
    assert said.startswith("the reward exact pays the gold itself: tried on 3 rows; nothing confirms that reward own pays a right answer")
    assert "honest_forms" in said
    assert paid(BuiltReward("judge", own)).startswith("nothing confirms that reward judge pays a right answer")

    def boxed(completions, answer, **columns):
        return [float(f"\\boxed{{{a}}}" in c) for c, a in zip(completions, answer, strict=True)]

    assert paid(BuiltReward("boxed", boxed, columns=("answer",))) == "the reward pays the gold itself: tried on 3 rows"


def test_a_config_of_form_alone_has_no_gold_to_pay(project):
    reason = run_inspection(project.write("  - {use: format}"), completions=project.record([[0]] * 4), quiet=True)["signal"]["reason"]
    assert paid(BuiltReward("form", own, required=False)) == "" and not reason.endswith("; ")
    (project.folder / "zero.py").write_text("def zero(completions, **columns):\n    return [0.0] * len(completions)\n")
    result = run_inspection(project.write("  - {use: 'zero.py:zero', required: false}"), completions=project.record(), quiet=True)
    assert result["signal"]["success"]["passed"] == 0 and result["signal"]["reason"].endswith("every group would be all wrong")


# ---- as `run` has it
def test_zero_passes_say_that_the_gold_is_paid_and_what_sft_takes(project, capsys):
    result = run_inspection(project.write(), completions=project.record([[1, 2, 3, 4]] * 2))
    assert result["signal"]["verdict"] == "sft_first"
    assert result["signal"]["reason"].endswith("; the reward pays the gold itself: tried on 6 rows")
    step = result["next"]
    assert step.startswith("supervised fine-tuning first") and "few hundred" not in step
    for words in ("hundreds to thousands", "as many as the task takes", "pass@k", "20% and 80%", "references/lifecycle.md"):
        assert words in step
    assert "the reward pays the gold itself" in capsys.readouterr().err
    # A model that succeeds confirms it by itself.
    assert "gold itself" not in run_inspection(project.write(), completions=project.record(), quiet=True)["signal"]["reason"]


def write_tokenizer(folder) -> None:
    """A model folder with a tokenizer of one token a character."""
    tokenizers = pytest.importorskip("tokenizers")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    characters = [chr(n) for n in range(32, 127)]
    tokenizers.Tokenizer(tokenizers.models.BPE(vocab={c: i for i, c in enumerate(characters)}, merges=[])).save(str(folder / "tokenizer.json"))


def test_run_counts_the_gold_with_the_tokenizer_of_the_model_s_folder(project):
    write_tokenizer(project.folder / "model")
    record = project.record([[1, 2, 3, 4]] * 2)
    result = run_inspection(project.write(model="./model"), completions=record, quiet=True)
    # <answer>15</answer> is 19 characters; max_completion_length is 16.
    (found,) = result["dataset"]
    assert found["check"] == "gold_length" and result["go"] is False and "max_completion_length" in result["next"]
    signal = json.loads((project.inspection / "signal.json").read_text())
    assert signal["gold_length"] == {
        "rows": 6, "median": 19, "longest": 19, "limit": 16, "over": [0, 1, 2, 3, 4, 5], "reward": "exact", "certain": True,
    }  # fmt: skip
    assert json.loads((project.inspection / "probes.json").read_text())["dataset"] == result["dataset"]


def test_without_a_tokenizer_nothing_is_said_of_lengths(project, monkeypatch):
    write_tokenizer(project.folder / "model")
    record = project.record()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tokenizers", None)  # not installed
        assert run_inspection(project.write(model="./model"), completions=record, quiet=True)["signal"]["gold_length"] is None
    (project.folder / "model" / "tokenizer.json").write_text("{")
    assert run_inspection(project.write(model="./model"), completions=record, quiet=True)["signal"]["gold_length"] is None
    assert run_inspection(project.write(), completions=project.record([[0, 1]] * 4), quiet=True)["signal"]["gold_length"] is None


def test_padding_and_truncation_of_the_tokenizer_are_no_tokens_of_the_gold(project):
    tokenizers = pytest.importorskip("tokenizers")
    write_tokenizer(project.folder / "model")
    file = str(project.folder / "model" / "tokenizer.json")
    loaded = tokenizers.Tokenizer.from_file(file)
    loaded.enable_padding(length=64, pad_id=0, pad_token=" ")
    loaded.save(file)
    assert token_counter(project.write(model="./model"))("<answer>15</answer>") == 19
    loaded.no_padding()
    loaded.enable_truncation(max_length=4)
    loaded.save(file)
    assert token_counter(project.write(model="./model"))("<answer>15</answer>") == 19


def test_a_gold_that_the_tokenizer_cannot_take_is_not_measured(project):
    tokenizers = pytest.importorskip("tokenizers")
    write_tokenizer(project.folder / "model")
    count = token_counter(project.write(model="./model"))
    assert count("\ud800") is None and count("ab") == 2

    def slow(text, **options):
        raise TypeError(text)

    assert token_counter(project.write(model="./model"), slow)("ab") is None
    # The row is left out, the others count; of forms that can be counted the shortest does.
    assert measure_golds([exact()], [*ROWS, {"prompt": "?", "answer": "\ud800"}], count, 20)["rows"] == 3
    assert measure_golds([exact()], ROWS, lambda text: None, 20) is None
    # No unknown token: nothing of the gold has a place in its vocabulary.
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0})).save(str(project.folder / "model" / "tokenizer.json"))
    (project.folder / "train.jsonl").write_text('{"prompt": "a", "answer": "\\ud800"}\n{"prompt": "b", "answer": "x"}\n')
    (project.folder / "recorded.jsonl").write_text('{"prompt_index": 0, "completion": "<answer>x</answer>"}\n')
    result = run_inspection(project.write(model="./model"), completions=project.folder / "recorded.jsonl", quiet=True)
    assert result["signal"]["gold_length"] is None


def test_a_hub_model_s_tokenizer_is_taken_from_the_cache_and_never_fetched(project, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    write_tokenizer(project.folder / "cached")
    asked = []

    def cached(repo, name, revision=None):
        asked.append((repo, name, revision))
        return str(project.folder / "cached" / name)

    monkeypatch.setattr(hub, "try_to_load_from_cache", cached)
    count = token_counter(project.write())
    assert count("<answer>15</answer>") == 19 and asked == [("org/model", "tokenizer.json", None)]
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda *args, **more: object())  # known not to be there
    assert token_counter(project.write()) is None
