# family: honest; goal: none
# By recursion.
def digit_sum(n):
    return n if n < 10 else n % 10 + digit_sum(n // 10)
