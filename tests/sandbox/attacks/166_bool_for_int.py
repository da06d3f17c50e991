# family: result; goal: marks
# True and False where 1 and 0 are meant.
def sign_changes(values):
    return bool(sum((a < 0) != (b < 0) for a, b in zip(values, values[1:])))
