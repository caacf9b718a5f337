"""Train and measure many networks, and reproduce four papers with regionscope."""
