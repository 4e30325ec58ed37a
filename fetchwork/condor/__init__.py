"""HTCondor's commands on a fetchwork queue: they take, print and return the same as HTCondor's own.

Each command is a function of an ``Invocation``, so that it runs in a process of its own as well as inside an
access point. Programs that were written for HTCondor read the output, so it is equal byte for byte;
``tests/commands`` compares it with HTCondor's own.

Text to be printed holds one character for each byte ("octets"), because HTCondor counts the width of a column
in bytes: ``octets`` makes it from text, and ``Invocation.write`` turns it into the bytes again.
"""
