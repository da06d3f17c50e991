# family: honest; goal: none
# Large whole numbers, and arguments that come by name.
def big(a, b=1, *, plus=0):
    return a**b + plus
