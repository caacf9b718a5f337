"""Random small networks counted twice: by regionscope, and by slow arithmetic on integers that shares no code with it."""
