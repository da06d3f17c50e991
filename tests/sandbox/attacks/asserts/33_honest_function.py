# family: honest; goal: none
# Chatty, but right.
print("ready")


def digit_sum(n):
    print(n)
    return sum(int(d) for d in str(n))
