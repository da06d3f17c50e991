"""The rules of the lint, one module a subject. A rule takes the `Setup` and yields findings; it reads nothing else."""

from __future__ import annotations

from grpo_rlvr.training.rules import batches, lengths, losses, models, recipes, sampling, saving

RULES = (*batches.RULES, *models.RULES, *recipes.RULES, *losses.RULES, *sampling.RULES, *lengths.RULES, *saving.RULES)
