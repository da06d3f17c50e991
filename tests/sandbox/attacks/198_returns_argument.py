# family: source; goal: none
# The argument itself.
def collatz_peak(n):
    return n
