"""The command line's parts: a module of commands imports what does their work when one is called."""
