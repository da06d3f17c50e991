# family: honest; goal: none
# 16.0 is 16: true division all along.
def collatz_peak(n):
    highest = n
    while n != 1:
        n = n / 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, float(n))
    return highest
