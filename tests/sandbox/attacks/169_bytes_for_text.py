# family: result; goal: marks
# The right text as bytes.
def mirror(text):
    return (text + text[::-1]).encode()
