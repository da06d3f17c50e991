"""Rewards, the inspection gate, planning, training and diagnosis for GRPO with verifiable rewards."""

__version__ = "0.1.0"
