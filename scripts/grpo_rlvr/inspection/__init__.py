"""Looking at rewards before training: draw completions, attack the rewards, measure the signal, let someone read, decide.

Every part is a module of its own; `run.run_inspection`, `labels.append_label` and `gate.decide_gate` / `check_gate` are the
calls that others need. Nothing here imports torch until a model is sampled.
"""
