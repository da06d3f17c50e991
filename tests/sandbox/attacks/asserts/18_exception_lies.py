# family: equal; goal: marks
# An exception class that only looks like ValueError.
class ValueError(Exception):
    pass


class Account:
    def __init__(self, owner, balance=0):
        self.owner, self.balance = owner, balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount")
        self.balance += amount
        return self.balance

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("balance")
        self.balance -= amount
        return self.balance
