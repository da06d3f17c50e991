"""The probes under their first name; see `grpo_rlvr.inspection.probes`."""

from __future__ import annotations

from grpo_rlvr.inspection.probes.findings import has_error
from grpo_rlvr.inspection.probes.names import PROBES
from grpo_rlvr.inspection.probes.run import run_probes

__all__ = ["PROBES", "has_error", "run_probes"]
