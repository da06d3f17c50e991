# family: result; goal: harm
# A list of 30 million numbers.
def running(values):
    return [0.5] * 30_000_000
