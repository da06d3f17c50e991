"""The table of variants: its values reach TRL, and TRL's losses are those of the papers, computed here by hand on real batches."""

from __future__ import annotations

import json
import math

import pytest
from conftest import ROOT
from grpo_rlvr.training import variants_page
from grpo_rlvr.training.variants import COMMON, VARIANTS, settings_of
from grpo_rlvr.trl_settings import settings


def test_each_variant_says_what_a_person_needs():
    for name, variant in VARIANTS.items():
        assert name == variant.name and variant.why and variant.does_nothing_when and variant.source.startswith("https://")
        assert set(COMMON) < set(variant.settings) and set(settings_of(name)) <= set(settings().by_name), name
        assert all(r["use"] == "overlong" for r in variant.rewards)
    assert {v.settings["loss_type"] for v in VARIANTS.values()} == {"grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"}
    assert len({v.symptom for v in VARIANTS.values() if v.symptom}) == sum(bool(v.symptom) for v in VARIANTS.values())


@pytest.mark.parametrize(
    "name, values",
    {
        "grpo": {"loss_type": "grpo", "scale_rewards": "group", "beta": 0.04, "epsilon": 0.2, "epsilon_high": None, "use_bias_correction_kl": False},
        "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none", "beta": 0.0},
        "dapo": {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0, "mask_truncated_completions": True},
        "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4, "beta": 0.0},
        "cispo": {"loss_type": "cispo", "epsilon_high": 5.0, "beta": 0.0},
        "bnpo": {"loss_type": "bnpo"},
        "sapo": {"loss_type": "sapo", "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05},
        "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 2e-3, "epsilon_high": 2.5e-3},
        "gdpo": {"multi_objective_aggregation": "normalize_then_sum"},
        "lite_ppo": {"loss_type": "dapo", "scale_rewards": "batch"},
        "scalerl": {"loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "batch", "cast_lm_head_to_fp32": True},
        "intellect_2": {"delta": 4.0, "beta": 0.001, "epsilon": 0.2},
        "high_entropy": {"top_entropy_quantile": 0.2, "epsilon_high": 0.28, "mask_truncated_completions": True},
        "deepseek_v3_2": {"off_policy_mask_threshold": 0.5, "use_bias_correction_kl": True, "beta": 0.001},
    }.items(),
)
def test_the_values_of_the_papers(name, values):
    assert {key: VARIANTS[name].settings[key] for key in values} == values


def test_several_updates_a_batch_follow_the_accumulation():
    assert settings_of("gspo")["steps_per_generation"] == 4 and settings_of("gspo", 8)["steps_per_generation"] == 32
    assert "steps_per_generation" not in settings_of("dapo")


def test_clip_bounds_do_nothing_with_vllm_either_where_a_batch_is_used_once():
    recorded = json.loads((ROOT / "tests/data/tiny_runs.json").read_text(encoding="utf-8"))
    for run in (recorded["healthy-vllm"], recorded["stale"]):
        assert {v for v in run["columns"]["clip_ratio/region_mean"] if v is not None} == {0.0}
    assert max(v for v in recorded["stale"]["columns"]["sampling/importance_sampling_ratio/mean"] if v is not None) > 1.2  # beyond epsilon 0.2
    assert not [name for name, v in VARIANTS.items() if "vLLM" in v.does_nothing_when and name not in ("vespo", "deepseek_v3_2")]


def test_the_reference_is_printed_from_the_table():
    assert (ROOT / "references" / "variants.md").read_text(encoding="utf-8") == variants_page.page()
    assert all(f"### {name}\n" in variants_page.page() for name in VARIANTS)


@pytest.mark.parametrize("place", ["scripts/grpo_rlvr", "templates"])
def test_editors_complete_the_same_names(place):
    schema = json.loads((ROOT / place / "config.schema.json").read_text(encoding="utf-8"))
    assert schema["properties"]["variant"]["enum"] == [*VARIANTS, None]


# Against TRL: the objective as each paper writes it.


def by_hand(s: dict, logps, old, reference, entropies, advantages, mask, tokens: float):
    """(loss, metrics) of one batch.

    Args:
        s: the variant's settings, with max_completion_length.
        tokens: active tokens of an update, for the losses that divide by it.
    """
    import torch

    a, ratio_of_tokens = advantages[:, None], (logps - old).exp()
    lengths = mask.sum(1, keepdim=True).clamp(min=1)
    ratio = ratio_of_tokens
    if s["importance_sampling_level"] == "sequence":
        ratio = (((logps - old) * mask).sum(1, keepdim=True) / lengths).exp()
    loss, low, high = s["loss_type"], s["epsilon"], s["epsilon"] if s["epsilon_high"] is None else s["epsilon_high"]
    metrics = {}
    if loss == "cispo":
        objective = ratio.clamp(max=high).detach() * a * logps
        metrics["cispo_clip_ratio"] = (((ratio > high) & (a > 0)) * mask).sum() / mask.sum()
    elif loss == "sapo":
        heat = torch.where(a > 0, s["sapo_temperature_pos"], s["sapo_temperature_neg"])
        objective = 4 / heat * torch.sigmoid(heat * (ratio - 1)) * a
    elif loss == "vespo":
        w = ((logps - old) * mask).sum(1, keepdim=True).exp()
        k = torch.where(a >= 0, s["vespo_k_pos"], s["vespo_k_neg"])
        heat = torch.where(a >= 0, s["vespo_lambda_pos"], s["vespo_lambda_neg"])
        objective = (w**k * (heat * (1 - w)).exp()).detach() * a * logps
    else:
        capped = ratio.clamp(max=s["delta"]) if s.get("delta") else ratio
        objective = torch.minimum(capped * a, ratio.clamp(1 - low, 1 + high) * a)
        clipped = (((ratio > 1 + high) & (a > 0)) | ((ratio < 1 - low) & (a < 0))).float()
        metrics["clip_ratio/region_mean"] = clipped.mean() if clipped.shape[1] == 1 else (clipped * mask).sum() / mask.sum()
    if s.get("off_policy_mask_threshold"):
        drift = ((old - logps).detach() * mask).sum(1, keepdim=True) / lengths
        objective = objective * ((a >= 0) | (drift <= s["off_policy_mask_threshold"]))
    if s.get("top_entropy_quantile"):
        objective = objective * (entropies >= entropies[mask.bool()].quantile(1 - s["top_entropy_quantile"]))
    if s["beta"]:
        k3 = (reference - logps).exp() - (reference - logps) - 1
        objective = objective - s["beta"] * (k3 * ratio if s["use_bias_correction_kl"] else k3)
    per_sequence = (objective * mask).sum(1)
    if loss in ("grpo", "sapo"):
        value = (per_sequence / lengths[:, 0]).mean()
    elif loss == "luspo":
        value = per_sequence.mean()
    elif loss == "dr_grpo":
        value = per_sequence.mean() / s["max_completion_length"]
    else:
        value = per_sequence.sum() / (mask.sum().clamp(min=1) if loss == "bnpo" else tokens)
    return -value, metrics


def advantages_by_hand(s: dict, scores: list[list[float]], group: int) -> list[float]:
    """Advantages of a generation batch from the values of each reward, groups in order; TRL adds 1e-4 to each deviation."""
    import torch

    each = [torch.tensor(one).view(-1, group) for one in scores]
    if s.get("multi_objective_aggregation") == "normalize_then_sum":
        total = sum((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-4) for r in each)
        return ((total - total.mean()) / (total.std() + 1e-4)).flatten().tolist()
    total = sum(each)
    spread = {"group": total.std(1, keepdim=True), "batch": total.std(), "none": torch.tensor(1.0 - 1e-4)}[s["scale_rewards"]]
    return ((total - total.mean(1, keepdim=True)) / (spread + 1e-4)).flatten().tolist()


@pytest.mark.model
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VARIANTS)
def test_trl_computes_the_papers_loss(name, untaught_model, tmp_path):
    torch, trl = pytest.importorskip("torch"), pytest.importorskip("trl")
    from datasets import Dataset

    own = settings_of(name)
    own["steps_per_generation"] = 2  # the second update of a batch is off-policy: the ratios are no longer 1
    scores: dict[str, list[float]] = {"letters": [], "spread": []}

    def letters(completions, **columns):
        scores["letters"] += (values := [sum(map(str.isalpha, c)) / 8 for c in completions])
        return values

    def spread(completions, **columns):
        scores["spread"] += (values := [float(len(set(c)) > 6) for c in completions])
        return values

    class Recording(trl.GRPOTrainer):
        seen: list = []

        def _compute_loss(self, model, inputs):
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
            shown = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
            length = inputs["completion_ids"].shape[1]

            def logps_of(network):
                logits = network(input_ids=ids, attention_mask=shown).logits[:, -length - 1 : -1]
                every = torch.log_softmax(logits, -1)
                return every.gather(-1, inputs["completion_ids"][..., None])[..., 0], -(every.exp() * every).sum(-1)

            with torch.no_grad():
                logps, entropies = logps_of(model)
                reference = logps_of(self.ref_model)[0] if self.ref_model is not None else None
                mask = inputs["completion_mask"].float()
                tokens = float(inputs["num_items_in_batch"]) / 2  # of two updates
                s = {**own, "max_completion_length": 48}
                wanted, metrics = by_hand(s, logps, inputs["old_per_token_logps"], reference, entropies, inputs["advantages"], mask, tokens)
            loss = super()._compute_loss(model, inputs)
            got = {key: self._metrics["train"][key][-1] for key in metrics}
            ratio = (logps - inputs["old_per_token_logps"]).exp()
            self.seen.append((float(wanted), float(loss.detach()), metrics, got, inputs["advantages"].tolist(), float((ratio * mask).max())))
            return loss

    given = {
        "output_dir": str(tmp_path), "use_cpu": True, "bf16": False, "report_to": "none", "max_steps": 2, "save_strategy": "no", "seed": 3,
        "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 48, "learning_rate": 0.02,
        "lr_scheduler_type": "constant",
        "generation_kwargs": {"exponential_decay_length_penalty": (10, 1.2)},  # some completions end, some are cut
    }  # fmt: skip
    args = trl.GRPOConfig(**given, **own)
    assert {key: getattr(args, key) for key in own} == own
    rows = Dataset.from_list([{"prompt": f"{i}+1="} for i in range(8)])
    trainer = Recording(model=str(untaught_model), args=args, reward_funcs=[letters, spread], train_dataset=rows)
    Recording.seen = []
    trainer.train()
    first, second = Recording.seen
    for wanted, got, metrics, logged, _, _ in (first, second):
        assert got == pytest.approx(wanted, rel=2e-3, abs=2e-5)
        assert logged == pytest.approx({key: float(value) for key, value in metrics.items()}, abs=1e-4)
    assert first[5] == pytest.approx(1.0, abs=1e-3) and second[5] > 1.01  # ratios: 1 at first, then not
    advantages = sorted(first[4] + second[4])
    assert advantages == pytest.approx(sorted(advantages_by_hand(own, list(scores.values()), 4)), abs=2e-3)
    assert not math.isclose(first[1], second[1], abs_tol=1e-9)
