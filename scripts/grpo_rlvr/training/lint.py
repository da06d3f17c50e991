"""Settings that cannot work, that train nothing, or that do something else than they seem to: found before any model is loaded.

Errors stop the training, warnings are printed, notes explain. Every rule was seen to matter in TRL 1.16's own behaviour.
"""

from __future__ import annotations

from grpo_rlvr.config import Config
from grpo_rlvr.training.findings import LEVELS, Finding
from grpo_rlvr.training.rules import batches, lengths, losses, models, recipes, sampling, saving
from grpo_rlvr.training.seen import Seen
from grpo_rlvr.training.setup import Setup

__all__ = ["LEVELS", "Finding", "lint"]

RULES = (*batches.RULES, *models.RULES, *recipes.RULES, *losses.RULES, *sampling.RULES, *lengths.RULES, *saving.RULES)


def lint(config: Config, train_rows: int | None = None, world: int = 1, seen: Seen | None = None) -> list[Finding]:
    """All findings, errors first.

    Args:
        train_rows: prompts in the training data; None leaves out the rules that need it.
        world: processes that train (GPUs of all machines).
        seen: what is known of model, prompts and inspected completions.
    """
    setup = Setup(config, train_rows, world, seen or Seen())
    return sorted((f for rule in RULES for f in rule(setup)), key=lambda f: LEVELS.index(f.level))
