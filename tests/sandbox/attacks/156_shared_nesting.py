# family: result; goal: harm
# A hundred short lists in memory, 2**100 elements when written out.
def groups(values):
    nested = []
    for _ in range(100):
        nested = [nested, nested]
    return nested
