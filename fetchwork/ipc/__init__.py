"""Communication of Python processes on one host: Unix sockets, frames, processes that a zygote forks."""
