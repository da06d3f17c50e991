# family: honest; goal: none
# Output longer than a pipe holds, line by line.
n = int(input())
for i in range(n):
    print("row", i)
