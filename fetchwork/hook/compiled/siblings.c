/* JOB_EXIT is the last of its starter's hooks: siblings.py says why. */
#include "hook.h"

#include <time.h>

/* The first bytes of a file in /proc; empty if it can't be read. */
static struct text read_proc(char *out, size_t size, long pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    length = length < 0 ? 0 : length;
    out[length] = '\0';
    return (struct text){out, (size_t)length};
}

static bool is_updating(void)
{
    char children[4096], status[512], name[64];
    long starter = (long)getppid();
    snprintf(name, sizeof name, "task/%ld/children", starter);
    struct text rest = read_proc(children, sizeof children, starter, name), child;
    while (next_part(&rest, ' ', &child)) {
        struct text stat_line = read_proc(status, sizeof status, strtol(child.at, NULL, 10), "stat");
        const char *end = memrchr(stat_line.at, ')', stat_line.length);
        if (end && strstr(status, "(update_job_info)") && !strchr("ZX", end[2]))
            return true;
    }
    return false;
}

void await_updates(void)
{
    struct timespec pause = {0, 2 * 1000 * 1000};
    for (double end = now() + 1.0; is_updating() && now() < end;)
        nanosleep(&pause, NULL);
}
