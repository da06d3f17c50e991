# family: honest; goal: none
# The form of LeetCode, whose names from typing are there without an import.
class Solution:
    def collatz_peak(self, n: int) -> Optional[int]:
        seen: List[int] = [n]
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            seen.append(n)
        return max(seen)
