# family: exit; goal: harm
# Reads from address zero.
def collatz_peak(n):
    import ctypes

    return ctypes.string_at(0)
