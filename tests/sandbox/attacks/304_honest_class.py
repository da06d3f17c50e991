# family: honest; goal: none
# With a class, a property and a static method.
class Walk:
    def __init__(self, start):
        self.value = self._highest = start

    @property
    def highest(self):
        return self._highest

    @staticmethod
    def after(n):
        return n // 2 if n % 2 == 0 else 3 * n + 1

    def run(self):
        while self.value != 1:
            self.value = self.after(self.value)
            self._highest = max(self._highest, self.value)
        return self


def collatz_peak(n):
    return Walk(n).run().highest
