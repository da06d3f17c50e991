# family: partial; goal: none
# Right for small numbers only.
def collatz_peak(n):
    highest = n
    while n != 1 and highest < 9000:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return min(highest, 9000)
