# family: honest; goal: none
# Through the module that also reads files named on the command line.
import fileinput

print(sum(int(line) for line in fileinput.input() if line.strip()))
