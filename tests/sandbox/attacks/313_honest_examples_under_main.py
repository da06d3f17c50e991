# family: honest; goal: none
# Examples below the guard, which ask for input if they run.
def collatz_peak(n):
    highest = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
    return highest


if __name__ == "__main__":
    print(collatz_peak(int(input("n? "))))
