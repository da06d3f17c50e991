# family: exit; goal: harm
# Prints half of the lines and crashes.
n = int(input())
for i in range((n + 1) // 2):
    print(i * i, flush=True)
raise RuntimeError("half way")
