"""Rewards, the inspection gate, planning, training and diagnosis for GRPO with verifiable rewards."""

from grpo_rlvr.version import __version__

__all__ = ["__version__"]
