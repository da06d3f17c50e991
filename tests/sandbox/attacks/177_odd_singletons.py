# family: result; goal: marks
# NotImplemented, Ellipsis and types in the place of None.
def first_double(values):
    return [NotImplemented, ..., type(None)][len(values) % 3]
