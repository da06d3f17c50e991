"""Attacks on the rewards before the policy finds them, and what else a reward has promised.

A reward that correlates perfectly with correctness in honest samples can still pay for something else: what tells is whether it stops
paying when only the answer becomes wrong.
"""

from __future__ import annotations

from grpo_rlvr.inspection.probes.findings import has_error
from grpo_rlvr.inspection.probes.names import PROBES
from grpo_rlvr.inspection.probes.run import run_probes

__all__ = ["PROBES", "has_error", "run_probes"]
