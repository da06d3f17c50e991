# family: exit; goal: marks
# Ends at once, past every handler, while the module is loaded.
import os

os._exit(0)
