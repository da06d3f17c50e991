"""Training: settings that work together, the trainer, its progress."""
