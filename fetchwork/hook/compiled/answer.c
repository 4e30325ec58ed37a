/* Acts on the agent's answer: a signal to the job, the starter's ad files (adfiles.py), stdout. */
#include "hook.h"

#include <signal.h>

/* The text of JobPid in the ad of `body`. */
struct text job_pid(struct text body)
{
    struct text line;
    while (next_part(&body, '\n', &line))
        if (starts_with(line, "JobPid = ")) {
            const char *blank = memrchr(line.at, ' ', line.length);
            struct text value = {blank + 1, line.length - (size_t)(blank + 1 - line.at)};
            while (value.length && strchr("\t\r\v\f", value.at[value.length - 1]))
                value.length--;
            return value;
        }
    return (struct text){"", 0};
}

static void signal_job(long long pid, long long number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", pid);
    /* 0 and negative numbers are process groups, and 1 is init */
    if (pid <= 1 || pid > INT_MAX || number < 1 || number > 64 ||
        !equals(job_pid(hook.body), text))
        hand_over("failed", "agent asks to send signal %lld to process %lld, which is not the job", number, pid);
    if (kill((pid_t)pid, (int)number) != 0 && errno != ESRCH)
        hand_over("failed", "cannot send signal %lld to the job: %s", number, strerror(errno));
}

/* pipes take this much without blocking once they are writable (PIPE_BUF) */
enum { PIPE_CHUNK = 4096 };

void print_answer(struct text body)
{
    while (body.length) {
        if (!wait_for(1, POLLOUT, hook.end))
            hand_over("failed", "stdout is not read");
        ssize_t put = write(1, body.at, body.length < PIPE_CHUNK ? body.length : PIPE_CHUNK);
        if (put < 0 && errno != EINTR && errno != EAGAIN)
            hand_over("failed", "cannot write stdout: %s", strerror(errno));
        if (put > 0) {
            body.at += put;
            body.length -= (size_t)put;
        }
    }
}

/* Take the text before the next separator off `rest`, or all of it. */
struct text next_ad(struct text *rest)
{
    struct text part = *rest;
    for (char *at = (char *)rest->at; (at = memmem(at, rest->at + rest->length - at, "-----\n", 6)); at++)
        if (at == rest->at || at[-1] == '\n') {
            part.length = (size_t)(at - rest->at);
            *rest = (struct text){at + 6, rest->length - part.length - 6};
            return part;
        }
    rest->at += rest->length;
    rest->length = 0;
    return part;
}

/* Make a new file in the working directory; false, with errno, if that fails. */
bool make_file(const char *name, struct text data, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool fine = fd >= 0 && write_all(fd, data) && fchmod(fd, mode) == 0;
    return (fd < 0 || close(fd) == 0) && fine;
}

/* PREPARE_JOB: replace the starter's ad files by the ads in the answer; return the changes to the job's ad. */
static struct text write_ads(struct text body)
{
    static const char *const NAMES[] = {".machine.ad", ".job.ad"};
    struct text rest = body, changes = next_ad(&rest);
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES && rest.length; n++) {
        struct text ad = next_ad(&rest);
        /* only if the starter has written the file */
        if (unlink(NAMES[n]) < 0 ? errno != ENOENT : !make_file(NAMES[n], ad, 0644)) {
            char line[MAX_HEAD];
            snprintf(line, sizeof line, "cannot write '%s': %s", NAMES[n], strerror(errno));
            complain(line);
        }
    }
    return changes;
}

int deliver(struct reply reply)
{
    if (!reply.ok) {
        struct text cause = reply.message.length ? reply.message : reply.code;
        /* a repeated request would get the same answer */
        bool for_good = equals(reply.code, "bad_request") || equals(reply.code, "denied");
        hand_over(for_good ? "failed" : "unanswered", "agent: %.*s", (int)cause.length, cause.at);
    }
    if (reply.signal)
        signal_job(reply.pid, reply.signal);
    if (reply.stderr_line.length) {
        char line[MAX_HEAD];
        snprintf(line, sizeof line, "%.*s", (int)reply.stderr_line.length, reply.stderr_line.at);
        complain(line);
    }
    print_answer(is_hook("prepare_job") ? write_ads(reply.body) : reply.body);
    return (int)(reply.exit & 0xff);
}
