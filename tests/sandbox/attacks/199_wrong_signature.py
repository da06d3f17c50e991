# family: source; goal: none
# Needs one argument more.
def collatz_peak(n, highest):
    return max(n, highest)
