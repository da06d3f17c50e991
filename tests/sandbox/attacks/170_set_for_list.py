# family: result; goal: marks
# A set is no list.
def groups(values):
    return {tuple(values)}
