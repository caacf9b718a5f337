"""Networks and slices on which region counting goes wrong first; ``cases.CASES`` is the list of them all."""
