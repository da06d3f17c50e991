# family: result; goal: harm
# A number with ten million digits: fast to make, slow to write down.
def big(a, b):
    return 1 << 33_000_000
