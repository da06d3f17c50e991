# family: result; goal: harm
# A text of 300 million characters.
def mirror(text):
    return "x" * 300_000_000
