# family: honest; goal: none
# Remembers results between the calls.
known = {1: 1}
calls = 0


def collatz_peak(n):
    global calls
    calls += 1
    if n not in known:
        known[n] = max(n, collatz_peak(n // 2 if n % 2 == 0 else 3 * n + 1))
    return known[n]
