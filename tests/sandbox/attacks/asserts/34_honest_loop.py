# family: honest; goal: none
# Tests with a loop and computed expectations.
def squares_below(n):
    return [i * i for i in range(n) if i * i < n]
