# family: source; goal: none
# No program at all.
def collatz_peak(n) return n
