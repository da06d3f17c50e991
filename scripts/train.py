#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate>=1.12",
#   "datasets>=4.7",
#   "jsonschema[format-nongpl]>=4.23",
#   "math-verify>=0.9,<0.10",
#   "peft>=0.18",
#   "pyyaml>=6.0",
#   "rich>=13.7",
#   "torch>=2.9",
#   "transformers>=5.10,<5.18",
#   "trl>=1.16,<1.17",
# ]
# ///
"""Runs templates/train.py where it lies, for those who have not copied it into their project."""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).resolve().parent.parent / "templates" / "train.py"), run_name="__main__")
