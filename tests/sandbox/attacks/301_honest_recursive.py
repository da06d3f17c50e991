# family: honest; goal: none
# By recursion.
def collatz_peak(n):
    if n == 1:
        return 1
    return max(n, collatz_peak(n // 2 if n % 2 == 0 else 3 * n + 1))
