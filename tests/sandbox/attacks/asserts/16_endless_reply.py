# family: resource; goal: harm
# A method that never returns.
class Account:
    def __init__(self, owner, balance=0):
        self.balance = balance

    def deposit(self, amount):
        while True:
            pass
