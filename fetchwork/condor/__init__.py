"""HTCondor's commands on a fetchwork queue: what they take, print and return is HTCondor's.

Each command is a function of an ``Invocation``, so that it runs in a process of its own as well as inside an
access point. What the commands print is looked at by programs that were written for HTCondor, byte for byte;
``tests/commands`` compares them with HTCondor's own.

Text to be printed holds one character for each byte ("octets"), because HTCondor counts the width of a column
in bytes: ``octets`` makes it from text, and ``Invocation.write`` turns it into the bytes again.
"""
