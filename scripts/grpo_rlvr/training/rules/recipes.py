"""The variant and the rewards: what is written against what the method is."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_rlvr.training.findings import Finding, error, note, warning
from grpo_rlvr.training.setup import Setup
from grpo_rlvr.training.variants import VARIANTS, settings_of
from grpo_rlvr.variant_section import overridden

# Methods that are nothing but a treatment of the ratio.
NEEDS_RATIO = ("gspo", "sapo", "vespo")

# Rewards of TRL that are a trap here: (name, level, what it does, what to write).
TRAPS = {
    "accuracy_reward": (
        "error",
        "pays 0 for '42', '$42$' and '<answer>42</answer>' (only \\boxed{} and one fixed sentence count), and can freeze the process:"
        " 8 s for 500 nested brackets, no time limit outside the main thread",
        "use: math",
    ),
    "think_format_reward": (
        "warning",
        "is 0 for every completion if the chat template writes <think> itself, 0 after a leading newline, and 1 for an empty thought",
        "use: format",
    ),
}
TRAPS["reasoning_accuracy_reward"] = TRAPS["accuracy_reward"]


def _variant(s: Setup) -> Iterator[Finding]:
    name = s.config.variant
    if name is None:
        return
    variant, written = VARIANTS[name], s.config.grpo
    for setting, (own, yours) in overridden(name, written).items():
        yield warning(
            "variant-overridden",
            f"variant {name} has {setting} {_said(own)} and grpo.{setting} is {_said(yours)}: yours is used",
            f"delete grpo.{setting}, or the variant if you mean another method",
        )
    if name in NEEDS_RATIO and s.on_policy and not (name == "vespo" and s.weighs_gap):
        batch = settings_of("gspo", s["gradient_accumulation_steps"])["steps_per_generation"]
        yield warning(
            "variant-no-effect",
            f"variant {name} acts on the ratio, which is always 1 here: a batch is used up within one update (steps_per_generation x"
            f" num_iterations {s.cycle}, gradient_accumulation_steps {s['gradient_accumulation_steps']})",
            f"set steps_per_generation: {batch}, or take variant: grpo",
        )
    for entry in variant.rewards:
        here = next((r for r in s.config.rewards if r.use == entry["use"]), None)
        if here is not None:
            shown = ", ".join(f"{k} {v}" for k, v in here.args.items())
            yield note("variant-reward", f"variant {name} has the reward {here.use} with weight {here.weight:g} ({shown})", "")
    if variant.missing:
        yield note("variant-missing", f"not in TRL: {variant.missing}", "")


def _rewards(s: Setup) -> Iterator[Finding]:
    levels = {"error": error, "warning": warning}
    for reward in s.config.rewards:
        module, _, function = reward.use.rpartition(":")
        if module.startswith("trl.rewards") and function in TRAPS:
            level, what, instead = TRAPS[function]
            yield levels[level](f"trl-{function.replace('_', '-')}", f"{reward.use} {what}", f"write {instead}")


def _said(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


RULES = (_variant, _rewards)
