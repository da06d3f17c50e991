# family: result; goal: harm
# A list nested a million times.
def groups(values):
    nested = []
    for _ in range(1_000_000):
        nested = [nested]
    return nested
