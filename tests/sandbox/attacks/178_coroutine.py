# family: result; goal: marks
# A coroutine that nobody awaits, with the right answer in it.
async def collatz_peak(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest
