/* A hook that does nothing, for bench_startd: HTCondor's own cost of a fetched job.
 *
 * FETCH_WORK takes a token, one byte of the FIFO beside it, and prints the ad beside it; without a token it
 * waits for one, for a few seconds, as a fetch waits in an agent. The other hooks end at once.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_beside(const char *hook, const char *name, int flags)
{
    char path[PATH_MAX];
    const char *slash = strrchr(hook, '/');
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - hook), hook, name);
    return open(path, flags);
}

int main(int argc, char **argv)
{
    static char text[65536];
    char token;
    size_t size = 0;
    ssize_t got;
    (void)argc;
    /* end after the UPDATE_JOB_INFO beside it: else the startd sleeps for a second (hook/siblings.py) */
    if (strstr(argv[0], "job_exit"))
        usleep(10 * 1000);
    if (!strstr(argv[0], "fetch_work"))
        return 0;
    while (size < sizeof text - 1 && (got = read(0, text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)got;
    /* a busy slot would refuse it */
    if (strstr(text, "\nState = \"Claimed\"\n") && !strstr(text, "\nActivity = \"Idle\"\n"))
        return 0;
    int tokens = open_beside(argv[0], "tokens", O_RDWR), ad = open_beside(argv[0], "job.ad", O_RDONLY);
    struct pollfd waiter = {tokens, POLLIN, 0};
    fcntl(tokens, F_SETFL, O_NONBLOCK);
    /* another slot may take the token first */
    for (int tries = 0; tries < 5 && poll(&waiter, 1, 5000) > 0; tries++)
        if (read(tokens, &token, 1) == 1 && (got = read(ad, text, sizeof text)) > 0)
            return write(1, text, (size_t)got) != got;
    return 0;
}
