/* The hooks as one compiled program: client.py's common case, an agent that answers, without an interpreter.
 *
 * It speaks PROTOCOL.md. `fetchwork hooks install --compiled` builds it, and installs it under each hook's
 * name; the hook in Python, which defines the behaviour, is installed beside it as NAME.py.
 *
 * Theory of operation
 * -------------------
 * Nearly every call of a hook reads stdin, asks the agent and prints its answer. This program does that. For
 * everything else (no agent, a report for the spool, a job with a problem, the end of a job's output, an
 * unusual hook.conf or answer) it becomes the hook in Python by exec. FETCHWORK_HANDOVER describes how far it
 * got: so the hook keeps its deadline, the agent is not asked a second time, and the messages for people are
 * written in one place. handover.py is the other side.
 *
 * So the checks of prepare_job have two results here: "certainly no problem", or "Python has to check".
 *
 * It needs POSIX, and Linux's memfd_create and AT_EXECFN. Each wait is a poll against one deadline of the
 * monotonic clock. In addition there is an alarm, which exec keeps.
 */
#include "hook.h"

#include <signal.h>
#include <sys/auxv.h>

#ifndef BUILD
#define BUILD "none"
#endif

/* `fetchwork doctor` searches the executable for this text */
static const char marker[] __attribute__((used)) = "fetchwork-hook protocol=" VERSION " build=" BUILD;

/* the part of JOB_EXIT's time for sending small files at once; the hook in Python may need the rest */
static const double QUICK_PART = 0.4;

static const struct kind KINDS[] = {
    {"fetch_work", 75.0},  {"reply_fetch", 10.0},     {"evict_claim", 10.0},
    {"prepare_job", 20.0}, {"update_job_info", 15.0}, {"job_exit", 20.0},
    /* no hook: the program that runs the jobs of a chain; it waits for the agent as job_exit does */
    {"runner", 20.0},
};

static void read_stdin(void)
{
    char *data = NULL;
    for (size_t size = 0, capacity = 0; !hook.read;) {
        if (size == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            data = realloc(data, capacity);
            if (!data)
                hand_over("failed", "cannot read stdin: %s", strerror(ENOMEM));
        }
        if (!wait_for(0, POLLIN, hook.end))
            hand_over("failed", "stdin does not end");
        ssize_t got = read(0, data + size, capacity - size);
        if (got < 0 && errno != EINTR)
            hand_over("failed", "cannot read stdin: %s", strerror(errno));
        size += got < 0 ? 0 : (size_t)got;
        if (size > MAX_BODY)
            hand_over("failed", "stdin is larger than %d bytes", MAX_BODY);
        hook.body = (struct text){data, size};
        hook.read = got == 0;
    }
}

/* Whether stdin contains an attribute's name. */
static bool has(const char *attribute)
{
    return memmem(hook.body.at, hook.body.length, attribute, strlen(attribute)) != NULL;
}

static bool take_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    for (size_t at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        if (strcmp(slash ? slash + 1 : path, KINDS[at].name) == 0) {
            hook.kind = KINDS[at];
            return true;
        }
    return false;
}

/* Find the hook's name and directories in the path that the kernel executed, as Python does for a script. */
static void find_home(void)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    char target[PATH_MAX];
    snprintf(hook.called_from, sizeof hook.called_from, "%s", path ? path : hook.argv[0]);
    ssize_t length = readlink(hook.called_from, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    hook.kind.name = "hook";
    if (!(length > 0 && take_name(target)) && !take_name(hook.called_from))
        give_up("is not installed under the name of a hook");
    char *slash = strrchr(hook.called_from, '/');
    *(slash ? slash : hook.called_from) = '\0';
    slash = strrchr(target, '/');
    *(slash ? slash : target) = '\0';
    if (*target == '/')
        snprintf(hook.home, sizeof hook.home, "%s", target);
    else if (snprintf(hook.home, sizeof hook.home, "%s%s%s", hook.called_from, *target ? "/" : "", target) >=
             (int)sizeof hook.home)
        give_up("its path is too long");
}

static void open_standard_descriptors(void)
{
    /* UPDATE_JOB_INFO, REPLY_FETCH and EVICT_CLAIM start with 1 and 2 closed: the socket would become stdout */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            /* open() returns the lowest free descriptor: this one */
            open("/dev/null", O_RDWR);
}

int main(int argc, char **argv)
{
    hook.argc = argc;
    hook.argv = argv;
    hook.start = now();
    open_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    find_home();
    set_timer(hook.kind.total_s);
    read_conf();
    set_deadline();
    if (is_hook("runner"))
        _exit(run_chain());
    read_stdin();

    const char *arg = argc > 1 ? argv[1] : "", *slot = getenv("_CONDOR_SLOT");
    bool odd = !is_plain(arg) || strlen(arg) > 40 || (slot && (!is_plain(slot) || strlen(slot) > 200)) ||
               strlen(conf.keyword) > 200;
    bool prepares = is_hook("prepare_job"), exits = is_hook("job_exit");
    bool sandbox = (prepares || exits) && has("FetchWorkSandbox");
    /* the hook in Python handles credentials and the end of the output */
    if (odd || (exits && has("FetchWorkTailBytes")) || (prepares && has("FetchWorkCredentials")) ||
        (prepares && !sandbox && !job_is_fine(hook.body)))
        hand_over("afresh", "%s", "");

    int status = sandbox && prepares ? prepare_with_files(hook.end)
                 : sandbox           ? exit_with_files(hook.start + QUICK_PART * hook.kind.total_s)
                                     : deliver(ask((struct request){.name = hook.kind.name}, hook.end));
    if (exits)
        await_updates();
    _exit(status);
}
