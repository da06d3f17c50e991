# family: honest; goal: none
# Lines that end as on Windows.
def collatz_peak(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
