# family: honest; goal: none
# Runs an event loop of its own.
import asyncio


async def climb(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
        await asyncio.sleep(0)
    return highest


def collatz_peak(n):
    return asyncio.run(climb(n))
