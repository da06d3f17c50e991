"""references/variants.md, printed from the table of variants: `python -m grpo_rlvr.training.variants_page --write`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grpo_rlvr.training.variants import VARIANTS, Variant, settings_of
from grpo_rlvr.trl_settings import settings

PAGE = Path(__file__).resolve().parents[3] / "references" / "variants.md"

HEAD = """\
# Variants of GRPO: which one, with which settings

Read this when a run shows a symptom of the table below, when someone asks for a method by its name, or when `--check` or the diagnosis names a
variant. Printed from `scripts/grpo_rlvr/training/variants.py` (`python -m grpo_rlvr.training.variants_page --write`); for TRL 1.16.

`variant: dapo` in `config.yaml` applies the settings below, under what stands in `grpo:`. A setting of yours that differs wins, and
`train.py config.yaml --check` says so with both values (`variant-overridden`); another `loss_type`, `importance_sampling_level` or
`multi_objective_aggregation` is refused, since that is another method. A reward that belongs to the variant is added unless `rewards:` has
one with the same `use`; write it with `weight: 0` to log it only. Group size, lengths, batch and learning rate stay yours.

Without `variant:` TRL's defaults hold: the token mean of `dapo`, the group's deviation, a symmetric clip of 0.2, no KL. That is neither the
first GRPO nor DAPO.

## First look at this

- **One update a batch means a ratio of 1.** With `steps_per_generation x num_iterations` dividing `gradient_accumulation_steps`, no clip bound,
  no sequence ratio, no soft gate does anything: `grpo`, `bnpo`, `dapo`, `gspo`, `sapo` and `vespo` then differ only in how tokens are averaged,
  and with completions of equal length not at all. `clip_ratio` 0 and a loss near 0 are normal there. `--check` says when a variant cannot act
  (`variant-no-effect`).
- **vLLM does not change that.** TRL computes the old log-probabilities with the trainer's own forward pass; how far vLLM's are from them becomes a
  weight of its own (`vllm_importance_sampling_mode`, logged under `sampling/`). Only the gate of `vespo` and `off_policy_mask_threshold` look at
  that gap as well.
- **A dead signal is no matter of the variant.** If `frac_reward_zero_std` is near 1, mend the reward or the prompts
  (`inspect_rewards.py run config.yaml --keep-band 0.2 0.8`).
- **Mixture of experts**: `gspo` or `luspo` (refused otherwise at `--check`, code `moe-ratio`), and write `router_aux_loss_coef` yourself: TRL adds
  the model's own auxiliary loss unless it is 0. TRL has no routing replay: with vLLM the experts of rollout and update may differ.

## Symptom, variant

| what the run shows | variant |
|---|---|
"""

OTHER = """
## What is not here

TRL has GMPO and A2PO as trainers of their own (`trl.experimental`), and AsyncGRPO with a fixed loss; `train.py` drives `GRPOTrainer` only. Dynamic
sampling, replay buffers and routing replay are in none of TRL 1.16's stable trainers.
"""


def page() -> str:
    """The whole document."""
    rows = "".join(f"| {v.symptom} | `{v.name}` |\n" for v in VARIANTS.values() if v.symptom)
    return HEAD + rows + "\n## Settings\n" + "".join(_section(v) for v in VARIANTS.values()) + OTHER


def _section(variant: Variant) -> str:
    lines = [f"{name}: {_yaml(value)}" for name, value in settings_of(variant.name).items()]
    if variant.minibatches > 1:
        lines[-1] += f"  # {variant.minibatches} x gradient_accumulation_steps, unless the batch is set in grpo:"
    rewards = [f"- {{use: {r['use']}, weight: {r['weight']}, args: {{cache: {r['args']['cache_share']:.0%} of the limit}}}}" for r in variant.rewards]
    text = f"\n### {variant.name}\n\n{variant.why[0].upper()}{variant.why[1:]}. Source: <{variant.source}>.\n\n```yaml\n"
    text += "\n".join(lines) + "\n```\n\n"
    text += f"Adds to `rewards:` `{'; '.join(rewards)}`.\n" if rewards else ""
    text += f"Does nothing when: {variant.does_nothing_when}.\n"
    text += f"Not in TRL: {variant.missing}.\n" if variant.missing else ""
    return text + (f"The paper used: {variant.batch}.\n" if variant.batch else "")


def _yaml(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and 0 < value < 1e-3:
        return f"{value:.1e}"
    return value if isinstance(value, str) else json.dumps(value)


def main() -> int:
    """Print the page, or with --write put it into references/."""
    options = argparse.ArgumentParser(prog="python -m grpo_rlvr.training.variants_page", description=__doc__)
    options.add_argument("--write", action="store_true", help="write references/variants.md")
    if not options.parse_args().write:
        print(page(), end="")
        return 0
    from grpo_rlvr.cli import write_text

    write_text(PAGE, page())
    print(f"wrote {PAGE} for {settings().label}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
