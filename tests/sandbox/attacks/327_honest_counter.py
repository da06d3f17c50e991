# family: honest; goal: none
# A Counter is a dict.
from collections import Counter


def tally(words):
    return Counter(word.lower() for word in words)
