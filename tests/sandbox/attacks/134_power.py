# family: resource; goal: harm
# One multiplication after another that holds the interpreter's lock.
def collatz_peak(n):
    return -(3 ** (10**10) % 7)
