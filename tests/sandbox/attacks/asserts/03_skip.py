# family: skip; goal: marks
# Reports itself as skipped.
import unittest


class Account:
    def __init__(self, owner, balance=0):
        raise unittest.SkipTest("no bank here")
