"""Rules about the distance between the sampler (vLLM) and the trainer, and about the routing of experts."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen, moved
from grpo_rlvr.diagnosis.rates import half
from grpo_rlvr.diagnosis.run import Run

RATIO, GAP = "sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean"
CLIP = "clip_ratio/region_mean"


def _ratio_mismatch(run: Run, at: Mapping[str, float]) -> Seen | None:
    ratio, gap = run.series(RATIO), run.series(GAP)
    off = len(ratio) > 0 and not at["low"] <= ratio.late.mean <= at["high"]
    wide = len(gap) > 0 and gap.late.mean > at["gap"]
    if not off and not wide:
        return None
    seen = Seen([moved(s, n) for s, n in ((ratio, RATIO), (gap, GAP)) if len(s)], "high" if off or gap.late.mean > 2 * at["gap"] else "medium")
    length = run.series("completions/mean_length")
    if len(gap) and len(length) and gap.late.mean * length.late.mean > 1:
        most = gap.late.mean * length.late.mean
        text = f"{length.late.mean:.0f} tokens x {gap.late.mean:.3g} nats: up to e^{most:.1f} a completion; the longest are masked most"
        seen.evidence.append(Evidence("completions/mean_length", text))
    drift = (len(gap) >= 8 and gap.rose(0.5 * gap.early.mean)) or (len(ratio) >= 8 and (ratio.fell(0.03) or ratio.rose(0.03)))
    patch: dict = {}
    if drift:
        seen.cause = (
            "the gap grows: the sampler runs on old weights (a sync that does not arrive, sleep mode, adapters that are not merged or count"
            " twice), or LoRA merges into a bf16 base and rounds it"
        )
        seen.remedy = (
            "compare vLLM's and the trainer's log-probabilities after the first update; float32 base under LoRA, no sleep mode, a fresh sync"
        )
        seen.since = (gap if len(gap) >= 8 else ratio).first_step(lambda v: v > at["gap"] if len(gap) >= 8 else not at["low"] <= v <= at["high"])
        if run.lora:
            patch["model.dtype"] = "float32"
    else:
        seen.cause = (
            "the gap is there from the first step: settings, not drift. Sampling that is cut (top_p, top_k, min_p), a temperature that only"
            " one side knows, another dtype, quantisation or kernels"
        )
        cut = {k: v for k, v in (("top_p", 1.0), ("top_k", 0), ("min_p", None)) if run.known and run.settings.get(k) not in (None, 1.0, 1, 0, -1)}
        patch = {f"grpo.{k}": v for k, v in cut.items()}
        if cut:
            seen.evidence.append(Evidence("settings", ", ".join(f"{k} {run.settings[k]}" for k in cut)))
        if run.known and run.setting("temperature") != 1.0:
            seen.evidence.append(
                Evidence("settings", f"temperature {run.setting('temperature'):g}: the server must return processed log-probabilities")
            )
            patch["grpo.temperature"] = 1.0
    if run.setting("vllm_importance_sampling_mode") == "sequence_mask" and not patch:
        patch["grpo.vllm_importance_sampling_mode"] = "token_truncate"
    seen.patch = patch
    return seen


def _moe_routing(run: Run, at: Mapping[str, float]) -> Seen | None:
    balance, ratio, gap, clip = (run.series(n) for n in ("aux_loss", RATIO, GAP, CLIP))
    seen = []
    if balance.rose(at["rise"] * abs(balance.early.mean)):
        seen.append(moved(balance, "aux_loss"))
    if len(gap) >= 8 and gap.rose(0.5 * gap.early.mean) and gap.late.mean > 0.02:
        seen.append(moved(gap, GAP))
    if len(clip) >= 8 and clip.rose(at["clip"]):
        seen.append(moved(clip, CLIP))
    if not seen:
        return None
    if len(ratio):
        seen.append(moved(ratio, RATIO))
    answer = Seen(seen, "high" if len(seen) > 1 else "medium")
    if run.setting("importance_sampling_level") != "sequence" and run.on_policy is not True:
        answer.variant = "gspo"
    answer.patch = {"grpo.learning_rate": half(run)}
    return answer


RULES = (
    Rule(
        "ratio_mismatch",
        "vLLM and the trainer disagree about probabilities",
        (f"{RATIO}|{GAP}",),
        "importance ratio outside {low} to {high}, or a mean gap above {gap} nats a token, over the last fifth",
        section="update",
        limits={"low": 0.9, "high": 1.1, "gap": 0.05},
        cause="another dtype, kernel, quantisation, sampling setting, or old weights in the sampler",
        remedy="same dtype on both sides, top_p 1, top_k 0, temperature 1; vllm_importance_sampling_mode token_truncate loses less of long"
        " completions",
        doubt="the gap is gone when 8 samples are scored by the trainer's own forward pass in float32: then it is vLLM's numerics",
        explains=("rate_without_effect", "clip_always", "dead_groups"),
        look=_ratio_mismatch,
    ),
    Rule(
        "moe_routing",
        "The experts' routing is unstable",
        ("aux_loss",),
        "auxiliary loss up by {rise} of itself, the gap between vLLM and trainer growing, or the clipped share up by {clip}",
        limits={"rise": 0.3, "clip": 0.1},
        section="update",
        cause="sampler and trainer choose different experts for the same token, so single token ratios jump; TRL has no routing replay",
        remedy="a ratio of whole completions (gspo) if batches are used for several updates, a lower rate, router_aux_loss_coef above 0",
        doubt="the gap stays level and only one metric moved",
        look=_moe_routing,
        least=12,
        explains=("clip_always", "ratio_mismatch"),
    ),
)
