"""Variants as a remedy: from the one table in `training/variants.py`, and only settings that would change something in this run."""

from __future__ import annotations

from typing import Any

from grpo_rlvr.diagnosis.run import Run


def named(run: Run, name: str | None) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The variant as a finding shows it, and its settings that differ from the run's; (None, {}) where it would do nothing."""
    if name is None:
        return None, {}
    from grpo_rlvr.training.variants import VARIANTS, settings_of

    variant = VARIANTS.get(name)
    if variant is None:
        return None, {}
    wanted = settings_of(name, run.setting("gradient_accumulation_steps"))
    changes = {f"grpo.{k}": v for k, v in wanted.items() if not run.known or run.setting(k) != v}
    if run.known and not changes:
        return None, {}
    if run.config.get("variant"):  # the name brings its settings; what stands under grpo: would be another method's
        grpo = run.config.get("grpo")
        written = grpo if isinstance(grpo, dict) else {}
        changes = {"variant": name, **{k: v for k, v in changes.items() if k.partition(".")[2] in written}}
    missing = getattr(variant, "missing", "")  # what of the paper TRL cannot do
    shown = {
        "name": name,
        "missing": missing,
        "why": variant.why,
        "source": variant.source,
        "does_nothing_when": variant.does_nothing_when,
        "settings": dict(wanted),
    }
    return shown, changes
