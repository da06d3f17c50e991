#!/usr/bin/env python3
"""Runs templates/train.py where it lies, for those who have not copied it into their project."""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).resolve().parent.parent / "templates" / "train.py"), run_name="__main__")
