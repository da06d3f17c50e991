# family: honest; goal: none
# So is a defaultdict.
from collections import defaultdict


def tally(words):
    counts = defaultdict(int)
    for word in words:
        counts[word.lower()] += 1
    return counts
