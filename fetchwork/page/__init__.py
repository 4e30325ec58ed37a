"""The queue in a browser and over HTTP: ``fetchwork serve``.

One process answers HTTP and asks nothing of the database itself; a few worker processes do, each request with
the rights of the person who asks. Workers also evaluate people's constraints, and a worker that exceeds its
time is ended. Pages are rendered on the server; the script makes them live and nothing depends on it.
"""
