"""What workers say to one another and to ``run``: the channel, comparisons, relays, pickles."""
