# family: result; goal: marks
# Keys that become equal to the right ones only when they are turned into text.
class Word:
    def __init__(self, word):
        self.word = word

    def __str__(self):
        return self.word

    __repr__ = __str__


def tally(words):
    return {Word(w.lower()): sum(v.lower() == w.lower() for v in words) for w in words}
