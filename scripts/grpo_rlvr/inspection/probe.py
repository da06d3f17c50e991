"""The probes under their first name; see `grpo_rlvr.inspection.probes`."""

from __future__ import annotations

from grpo_rlvr.inspection.probes import PROBES, has_error, run_probes

__all__ = ["PROBES", "has_error", "run_probes"]
