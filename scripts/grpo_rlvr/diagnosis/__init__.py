"""Diagnosis: reads the log of any GRPO run and says what the run is doing and which settings to change. Needs no torch."""
