"""The evals are scripts beside each other, as `python evals/run.py` finds them."""

from __future__ import annotations

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))
