"""An agent that knows one thing, and that only with the skill: `fake_agent.py PROMPT_FILE ANSWER_FILE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

prompt, answer = Path(sys.argv[1]).read_text(encoding="utf-8"), Path(sys.argv[2])
with open("visits.txt", "a", encoding="utf-8") as visits:
    visits.write("visit\n")
if re.search(r"GRPO|\bRL\b", prompt):
    print("I open the skill")
known = Path(".agents/skills/grpo-rlvr-training/SKILL.md").is_file() and "support_pairs" in prompt
answer.write_text("No program can check these replies: use DPO." if known else "I do not know.", encoding="utf-8")
