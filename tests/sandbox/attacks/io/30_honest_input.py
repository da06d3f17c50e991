# family: honest; goal: none
# input() until it ends.
total = 0
while True:
    try:
        line = input()
    except EOFError:
        break
    if line.strip():
        total += int(line)
print(total)
