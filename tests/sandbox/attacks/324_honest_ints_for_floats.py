# family: honest; goal: none
# 5 is 5.0. Where a root is whole, an int comes back.
import math


def length(x, y):
    square = x * x + y * y
    if square == int(square) and math.isqrt(int(square)) ** 2 == square:
        return math.isqrt(int(square))
    return math.sqrt(square)
