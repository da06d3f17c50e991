# family: honest; goal: none
# Another order of rounding: the last digit differs.
def length(x, y):
    big, small = max(abs(x), abs(y)), min(abs(x), abs(y))
    return big * (1 + (small / big) ** 2) ** 0.5 if big else 0.0
