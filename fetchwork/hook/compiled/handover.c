/* The hook's clock, and its ways to end: becoming the hook in Python, or giving up; and its remarks. */
#include "hook.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>

struct hook hook;

/* seconds after its deadline at which a signal ends a hook that hangs */
static const double GRACE_S = 2.0;

bool is_hook(const char *name)
{
    return strcmp(hook.kind.name, name) == 0;
}

double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

void set_timer(double seconds)
{
    sigset_t signals;
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    /* rounded up */
    alarm((unsigned)(seconds + GRACE_S + 0.999));
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

/* Write all data to a file; false, with errno, if that fails. */
bool write_all(int fd, struct text data)
{
    while (data.length) {
        ssize_t put = write(fd, data.at, data.length);
        if (put <= 0)
            return false;
        data = (struct text){data.at + put, data.length - (size_t)put};
    }
    return true;
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

/* Fail in the way that HTCondor reads correctly; only if the hook in Python can't be started. */
_Noreturn void give_up(const char *cause)
{
    complain(cause);
    if (is_hook("prepare_job")) {
        /* the fence: a job whose run can't be confirmed does not start */
        static const char status[] =
            "HookStatusCode = 350\nHookStatusMessage = \"fetchwork: the hook in Python can't be started\"\n";
        if (wait_for(1, POLLOUT, now() + 1.0) && write(1, status, sizeof status - 1) < 0)
            _exit(1);
    }
    _exit(is_hook("fetch_work") ? 0 : 1);
}

/* Make `body` the stdin of the next program. */
bool put_back_stdin(void)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC);
    return fd >= 0 && write_all(fd, hook.body) && lseek(fd, 0, SEEK_SET) == 0 && dup2(fd, 0) == 0;
}

/* Become the hook in Python. `state` says how far this program got:
 *     afresh      the agent was not asked
 *     unanswered  the agent did not answer, or its error may be temporary
 *     failed      the same request would fail again
 */
_Noreturn void hand_over(const char *state, const char *format, ...)
{
    if (hook.without_answer)
        longjmp(*hook.without_answer, 1);
    static char cause[MAX_CAUSE], value[PATH_MAX + MAX_CAUSE + 100], program[PATH_MAX + 32];
    va_list more;
    va_start(more, format);
    vsnprintf(cause, sizeof cause, format, more);
    va_end(more);
    snprintf(program, sizeof program, "%s/%s.py", hook.home, hook.kind.name);
    /* the cause is last because it may contain any character */
    snprintf(value, sizeof value, "%s\n%.6f\n%s\n%s", state, hook.start, hook.called_from, cause);
    if (setenv("FETCHWORK_HANDOVER", value, 1) == 0 && (!hook.read || put_back_stdin())) {
        hook.argv[0] = program;
        execv(program, hook.argv);
    }
    snprintf(value, sizeof value, "%s%scannot start '%s': %s", cause, *cause ? "; " : "", program,
             strerror(errno));
    give_up(value);
}
