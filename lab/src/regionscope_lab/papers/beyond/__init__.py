"""Questions that the papers leave open, about networks like theirs."""
