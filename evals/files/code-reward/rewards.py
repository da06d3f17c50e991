import re
import subprocess
import sys


def code_reward(completions, tests, **kwargs):
    """1.0 if the tests run through, else 0.0"""
    scores = []
    for completion, test in zip(completions, tests, strict=True):
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)) or text
        try:
            done = subprocess.run([sys.executable, "-c", code + "\n" + test], capture_output=True, timeout=10)
            scores.append(1.0 if done.returncode == 0 else 0.0)
        except Exception:
            scores.append(0.0)
    return scores
