"""The processes of ``family.py``: run as a script with the number of a control socket.

Each message on the control socket is a command, each answer one message:

    fork UID        a child that is controlled by the socket that comes with the answer, its pid
    connect PATH    the answer brings a socket connected to PATH, or is an errno
"""

import ctypes
import os
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1


def main(control: socket.socket) -> None:
    """Obey until the socket ends."""
    libc = ctypes.CDLL(None)
    # children are not waited for
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        words = control.recv(4096).decode().split(" ", 1)
        if words[0] == "fork":
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                control.close()
                ours.close()
                control = theirs
                if int(words[1]) >= 0:
                    os.setuid(int(words[1]))
                if os.getppid() != parent:
                    os._exit(0)
                continue
            theirs.close()
            socket.send_fds(control, [str(child).encode()], [ours.fileno()])
            ours.close()
        elif words[0] == "connect":
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(words[1])
                socket.send_fds(control, [b"0"], [link.fileno()])
            except OSError as error:
                control.send(str(error.errno).encode())
            link.close()
        else:
            os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
