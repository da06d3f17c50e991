# family: honest; goal: none
# Names and text beyond ASCII.
Grüße = "größer 🙂"


def spiegel(wörter):
    return wörter + wörter[::-1]


def mirror(text):
    return spiegel(text)
