# family: result; goal: harm
# A list that holds itself.
def groups(values):
    loop = []
    loop.append(loop)
    return loop
