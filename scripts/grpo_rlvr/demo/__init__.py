"""The quickstart's models and task: real training on a CPU in minutes, with nothing to download at run time."""
