"""The tables and figures of the four papers, each as a small function over stored runs."""
