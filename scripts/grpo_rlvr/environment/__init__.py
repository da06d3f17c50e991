"""Can this machine run it: what is here, what fits together, what one config needs. Nothing here imports torch."""
