# family: result; goal: harm
# Text that cannot be encoded.
def mirror(text):
    return "\ud800\udfff" + chr(0) + "\udc80"
