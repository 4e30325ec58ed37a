/* The hook's clock, and its ways out: a remark, the hook in Python, giving up. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct hook hook;

/* how long after its deadline a hook that did not notice it is ended by a signal */
static const double GRACE_S = 2.0;

double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

void set_timer(double seconds)
{
    seconds += GRACE_S;
    struct itimerval timer = {{0, 0}, {0, 0}};
    timer.it_value.tv_sec = (time_t)seconds;
    timer.it_value.tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6);
    signal(SIGALRM, SIG_DFL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Wait until `fd` is ready; false at the deadline. */
bool wait_for(int fd, short events, double end)
{
    for (;;) {
        double left = end - now();
        if (left <= 0)
            return false;
        struct pollfd waiter = {fd, events, 0};
        int ready = poll(&waiter, 1, (int)(left * 1000) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

void complain(const char *cause)
{
    char text[2 * MAX_CAUSE], line[4 * 500 + 8];
    snprintf(text, sizeof text, "fetchwork %s: %s", hook.kind.name, cause);
    one_line((struct text){text, strlen(text)}, 500, line);
    strcat(line, "\n");
    if (wait_for(2, POLLOUT, now() + 0.2) && write(2, line, strlen(line)) < 0)
        return;
}

/* Only where the hook in Python can't be started: fail in the direction that HTCondor reads correctly. */
_Noreturn void give_up(const char *cause)
{
    complain(cause);
    if (strcmp(hook.kind.name, "prepare_job") == 0) {
        /* the fence: a run that can't be confirmed does not start */
        static const char status[] =
            "HookStatusCode = 350\nHookStatusMessage = \"fetchwork: the hook in Python can't be started\"\n";
        if (wait_for(1, POLLOUT, now() + 1.0) && write(1, status, sizeof status - 1) < 0)
            _exit(1);
    }
    _exit(strcmp(hook.kind.name, "fetch_work") == 0 ? 0 : 1);
}

/* Make `body` the stdin of whoever comes next. */
static bool put_back_stdin(void)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < hook.size;) {
        ssize_t put = write(fd, hook.body + at, hook.size - at);
        if (put <= 0)
            return false;
        at += (size_t)put;
    }
    return fd >= 0 && lseek(fd, 0, SEEK_SET) == 0 && dup2(fd, 0) == 0;
}

/* Become the hook in Python. `state` tells it where to go on:
 *     afresh       nothing was asked yet
 *     unconnected  the agent can't have seen the request
 *     connected    it may have
 *     refused      it answered that it can't: no other way will do
 *     failed       there is nothing more to try
 */
_Noreturn void hand_over(const char *state, const char *format, ...)
{
    static char cause[MAX_CAUSE], value[PATH_MAX + MAX_CAUSE + 100], program[PATH_MAX + 32];
    va_list more;
    va_start(more, format);
    vsnprintf(cause, sizeof cause, format, more);
    va_end(more);
    snprintf(program, sizeof program, "%s/%s.py", hook.home, hook.kind.name);
    /* the cause is last: it alone may hold anything */
    snprintf(value, sizeof value, "%s\n%.6f\n%s\n%s", state, hook.start, hook.called_from, cause);
    if (setenv("FETCHWORK_HANDOVER", value, 1) == 0 && (!hook.read || put_back_stdin())) {
        hook.argv[0] = program;
        execv(program, hook.argv);
    }
    snprintf(value, sizeof value, "%s%scannot start '%s': %s", cause, *cause ? "; " : "", program,
             strerror(errno));
    give_up(value);
}
