/* The runner of a chain: starts one job after the other in place of a starter's single job (PROTOCOL.md).
 *
 * Theory of operation
 * -------------------
 * The starter runs this program as the job of an offer. It asks the agent for the first job (chain_first),
 * runs it, tells how it ended, and gets the next (chain_next), until none comes. Each job is a process of its
 * own, with its own session, environment and empty scratch directory. Processes that a job leaves are ended
 * before its end is told: as a subreaper the runner is the parent of all of them. SIGTERM, by which the
 * starter evicts its job, ends the chain: the job that runs gets its own signal.
 *
 * Nothing is lost if the agent does not answer: the runner becomes JOB_EXIT, which waits for the agent, and
 * else spools the report.
 *
 * A job has the same account, so it may end the runner. But it can't read its memory or trace it, because the
 * runner is not dumpable; and it can't report for others than its Owner.
 */
#include "hook.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

/* the variable with the first run's id and token, and the name of a job's own directory */
static const char FIRST[] = "FETCHWORK_CHAIN", OWN[] = "job";
/* seconds between two attempts to reach an agent that does not listen, and for ending processes */
static const double AGAIN_S = 0.25, END_S = 10.0;
/* seconds in which who kills the job's whole family reaches the runner, too */
static const double KILLED_S = 0.5;

/* the signals that tell the runner to end */
static const int ENDING[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};

enum { MOST_NAMES = 64, MOST_AD = 4 << 20, MOST_LEVELS = 100 };

static struct {
    /* the environment without FIRST; the starter's scratch directory, and the job's below it */
    char **base, top[PATH_MAX], scratch[PATH_MAX];
    /* the names in the starter's directory when the chain began */
    char *names[MOST_NAMES];
    size_t named;
    sigset_t before, waited;
    struct text machine_ad;
    struct stat machine_file;
    /* whether a signal has told the runner to end, and whether the job was ended for that */
    bool told, evicted;
    bool has_machine_ad;
    pid_t starter;
    /* of the jobs' scratch directory */
    mode_t mode;
} chain;

/* -- the agent */

static jmp_buf unanswered;

/* Ask the agent; false if it did not answer, or with an error. The answer is valid until the next request. */
static bool ask_agent(const char *name, const char *check, struct reply *reply)
{
    double end = now() + hook.kind.total_s;
    volatile bool again = true;
    while (again) {
        if (setjmp(unanswered) == 0) {
            hook.without_answer = &unanswered;
            *reply = ask((struct request){.name = name, .check = check}, end);
            hook.without_answer = NULL;
            return reply->ok;
        }
        struct timespec pause = {0, (long)(AGAIN_S * 1e9)};
        nanosleep(&pause, NULL);
        again = now() + AGAIN_S < end;
    }
    return false;
}

static void set_argument(const char *argument)
{
    static char *argv[3];
    argv[0] = hook.argv[0];
    argv[1] = (char *)argument;
    hook.argv = argv;
    hook.argc = *argument ? 2 : 1;
}

/* Become JOB_EXIT with the request's body as its stdin. A signal that tells the runner to end no longer does:
 * the report would be lost. */
static _Noreturn void become_job_exit(void)
{
    char program[PATH_MAX + 16];
    snprintf(program, sizeof program, "%s/job_exit", hook.called_from);
    for (size_t at = 0; at < sizeof ENDING / sizeof *ENDING; at++)
        signal(ENDING[at], SIG_IGN);
    sigprocmask(SIG_SETMASK, &chain.before, NULL);
    if (put_back_stdin()) {
        hook.argv[0] = program;
        execve(program, hook.argv, chain.base);
    }
    complain("cannot start job_exit");
    _exit(1);
}

/* -- directories */

static bool keeps_nothing(const char *name)
{
    (void)name;
    return false;
}

static bool is_known(const char *name)
{
    for (size_t at = 0; at < chain.named; at++)
        if (strcmp(chain.names[at], name) == 0)
            return true;
    return false;
}

/* Remove what a directory contains, other than these names. A link is no directory: its target is kept. A
 * directory that lies too deep is moved to `top`, whose caller removes it in a next round. */
static bool empty_at(int parent, const char *path, bool (*keeps)(const char *name), int level, int top)
{
    static const int FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    bool whole = true;
    int fd = openat(parent, path, FLAGS);
    if (fd < 0 && errno == EACCES && fchmodat(parent, path, 0700, 0) == 0)
        fd = openat(parent, path, FLAGS);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory)
        return true;
    struct stat status;
    if (fstat(fd, &status) == 0 && (status.st_mode & 0700) != 0700)
        fchmod(fd, status.st_mode | 0700);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || keeps(name) || unlinkat(fd, name, 0) == 0)
            continue;
        if (level == MOST_LEVELS) {
            static unsigned moved;
            char deep[32];
            snprintf(deep, sizeof deep, ".deep.%u", moved++);
            whole = renameat(fd, name, top, deep) != 0 && whole;
            continue;
        }
        whole = empty_at(fd, name, keeps_nothing, level + 1, top < 0 ? fd : top) && whole;
        unlinkat(fd, name, AT_REMOVEDIR);
    }
    closedir(directory);
    return whole;
}

static void empty(const char *path, bool (*keeps)(const char *name))
{
    double end = now() + END_S;
    while (!empty_at(AT_FDCWD, path, keeps, 0, -1) && now() < end)
        continue;
}

static bool keeps_machine_ad(const char *name)
{
    return strcmp(name, ".machine.ad") == 0;
}

static bool keeps_known(const char *name)
{
    return strcmp(name, OWN) == 0 || is_known(name);
}

/* Note the starter's files, and make the directory of the jobs. */
static void make_scratch(void)
{
    const char *top = getenv("_CONDOR_SCRATCH_DIR");
    if (!top || *top != '/' || strlen(top) + sizeof OWN + 2 > sizeof chain.top)
        give_up("runs below condor_starter only: no _CONDOR_SCRATCH_DIR");
    snprintf(chain.top, sizeof chain.top, "%s", top);
    snprintf(chain.scratch, sizeof chain.scratch, "%.*s/%s", (int)sizeof chain.scratch - 8, top, OWN);
    DIR *directory = opendir(top);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL && chain.named < MOST_NAMES;)
        chain.names[chain.named++] = strdup(entry->d_name);
    if (directory)
        closedir(directory);
    struct stat status;
    chain.mode = stat(top, &status) == 0 ? status.st_mode & 0777 : 0700;
    if (mkdir(chain.scratch, 0700) != 0 || chmod(chain.scratch, chain.mode) != 0)
        give_up("cannot make the jobs' scratch directory");
    /* PREPARE_JOB has written it there */
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/.machine.ad", chain.top);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 && fstat(fd, &status) == 0 && status.st_size < MOST_AD ? malloc((size_t)status.st_size + 1) : NULL;
    ssize_t length = text ? read(fd, text, (size_t)status.st_size) : 0;
    if (fd >= 0)
        close(fd);
    chain.machine_ad = (struct text){text, length > 0 ? (size_t)length : 0};
}

/* Write a file of the job's directory anew; a job may have put anything in its place. */
static void put_file(const char *name, struct text data, struct stat *status)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", chain.scratch, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        complain("cannot write the job's ad to its scratch directory");
        return;
    }
    write_all(fd, data);
    fstat(fd, status);
    close(fd);
}

/* Make the job's directory as it was at the start of the first job; `ad` is the text for .job.ad. */
static void fill_scratch(struct text ad)
{
    struct stat status;
    put_file(".job.ad", ad, &status);
    if (!chain.has_machine_ad)
        put_file(".machine.ad", chain.machine_ad, &chain.machine_file);
    chain.has_machine_ad = true;
}

/* Whether the job has left .machine.ad alone: it can't set the time of a change. */
static bool has_machine_ad(void)
{
    char path[PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof path, "%s/.machine.ad", chain.scratch);
    return lstat(path, &status) == 0 && status.st_ino == chain.machine_file.st_ino &&
           status.st_ctim.tv_sec == chain.machine_file.st_ctim.tv_sec &&
           status.st_ctim.tv_nsec == chain.machine_file.st_ctim.tv_nsec;
}

/* Remove what the job has left. */
static void clean_scratch(void)
{
    static const char *const PRIVATE[] = {"tmp", "var/tmp"};
    char path[PATH_MAX + 32];
    struct stat status;
    chain.has_machine_ad = has_machine_ad();
    if (lstat(chain.scratch, &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 07777) != chain.mode)
        chmod(chain.scratch, chain.mode);
    empty(chain.scratch, chain.has_machine_ad ? keeps_machine_ad : keeps_nothing);
    empty(chain.top, keeps_known);
    if (lstat(chain.scratch, &status) != 0 || !S_ISDIR(status.st_mode)) {
        unlink(chain.scratch);
        if (mkdir(chain.scratch, 0700) != 0 || chmod(chain.scratch, chain.mode) != 0)
            complain("cannot make the jobs' scratch directory again");
    }
    /* directories of MOUNT_UNDER_SCRATCH */
    for (size_t at = 0; at < sizeof PRIVATE / sizeof *PRIVATE; at++) {
        snprintf(path, sizeof path, "%s/%s", chain.top, PRIVATE[at]);
        if (is_known(at ? "var" : "tmp"))
            empty(path, keeps_nothing);
    }
}

/* -- processes */

/* Add what an ended process of the job has used; of memory the most that one had. */
static void count_use(struct rusage *used, const struct rusage *more)
{
    timeradd(&used->ru_utime, &more->ru_utime, &used->ru_utime);
    timeradd(&used->ru_stime, &more->ru_stime, &used->ru_stime);
    if (more->ru_maxrss > used->ru_maxrss)
        used->ru_maxrss = more->ru_maxrss;
}

/* End the processes that the job has left, adding their use to `used`; false if some can't be ended. */
static bool end_left(struct rusage *used)
{
    char path[64], children[65536];
    struct rusage more;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    for (double end = now() + END_S; now() < end;) {
        pid_t ended = wait4(-1, NULL, WNOHANG, &more);
        if (ended > 0) {
            count_use(used, &more);
            continue;
        }
        if (ended < 0 && errno == ECHILD)
            return true;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, children, sizeof children - 1);
        if (fd >= 0)
            close(fd);
        if (length < 0)
            return false;
        /* a number that did not fit would be another process's */
        while (length && children[length - 1] != ' ')
            length--;
        children[length] = '\0';
        for (char *at = children, *next; *at; at = next) {
            long pid = strtol(at, &next, 10);
            if (next == at)
                break;
            if (pid > 1)
                kill((pid_t)pid, SIGKILL);
        }
        struct timespec pause = {0, 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Wait for the job's end; a signal that tells the runner to end reaches the job as its own signal. */
static int wait_for_job(pid_t pid, int kill_signal, struct rusage *used)
{
    for (;;) {
        int status;
        struct rusage more;
        pid_t ended = wait4(-1, &status, WNOHANG, &more);
        if (ended > 0)
            count_use(used, &more);
        if (ended == pid)
            return status;
        if (ended > 0)
            continue;
        int got = sigwaitinfo(&chain.waited, NULL);
        if (got <= 0 || got == SIGCHLD)
            continue;
        chain.told = true;
        /* it may have ended by itself before */
        if (wait4(pid, &status, WNOHANG, &more) == pid) {
            count_use(used, &more);
            return status;
        }
        chain.evicted = true;
        kill(pid, kill_signal);
    }
}

/* Whether a signal has told the runner to end. */
static bool is_told_to_end(void)
{
    sigset_t pending;
    if (sigpending(&pending) == 0)
        for (size_t at = 0; at < sizeof ENDING / sizeof *ENDING; at++)
            chain.told = chain.told || sigismember(&pending, ENDING[at]) == 1;
    return chain.told;
}

/* Whether the job or its last command was killed by SIGKILL, whose next victim may be the runner: a starter that
 * must not wait kills its whole family, the youngest first. The job's end is then none of its own. */
static bool was_killed(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 128 + SIGKILL;
}

/* -- reports */

/* The report of a job's end, as JOB_EXIT has it, in memory that is valid until the next call. */
static struct text report(const struct chain_job *job, pid_t pid, int status, double seconds, time_t start,
                          const struct rusage *used)
{
    static char *text;
    static size_t size;
    free(text);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return (struct text){"", 0};
    fprintf(out, "FetchWorkRunId = %s\nFetchWorkToken = \"%s\"\nFetchWorkHasPolicy = %s\n", job->run_id, job->token,
            job->has_policy ? "true" : "false");
    /* the process that the starter had as its job: with it the eviction is none of a job that can't start */
    if (!pid && chain.evicted)
        fprintf(out, "JobPid = %ld\n", (long)getpid());
    if (pid) {
        fprintf(out, "JobState = \"Exited\"\nJobPid = %ld\nJobStartDate = %lld\nJobDuration = %.6f\n", (long)pid,
                (long long)start, seconds);
        fprintf(out, "RemoteUserCpu = %lld.%06ld\nRemoteSysCpu = %lld.%06ld\n", (long long)used->ru_utime.tv_sec,
                (long)used->ru_utime.tv_usec, (long long)used->ru_stime.tv_sec, (long)used->ru_stime.tv_usec);
        fprintf(out, "ResidentSetSize = %ld\nMemoryUsage = %ld\n", used->ru_maxrss, (used->ru_maxrss + 1023) / 1024);
        if (WIFSIGNALED(status))
            fprintf(out, "ExitBySignal = true\nExitSignal = %d\nJobCoreDumped = %s\n", WTERMSIG(status),
                    WCOREDUMP(status) ? "true" : "false");
        else
            fprintf(out, "ExitBySignal = false\nExitCode = %d\n", WEXITSTATUS(status));
    }
    return fclose(out) == 0 ? (struct text){text, size} : (struct text){"", 0};
}

/* Copy a body to memory that lasts until the next job. */
static struct text kept(struct text body)
{
    static char *copy;
    free(copy);
    copy = malloc(body.length + 1);
    if (!copy)
        return (struct text){NULL, 0};
    memcpy(copy, body.at, body.length);
    return (struct text){copy, body.length};
}

static void set_up(void)
{
    char *first = getenv(FIRST), *colon = first ? strchr(first, ':') : NULL;
    static char body[256];
    if (!colon || strlen(first) > 100)
        give_up("runs below condor_starter only: no " "FETCHWORK_CHAIN");
    /* with a pid it serves as report of a job that has not begun, too */
    snprintf(body, sizeof body, "FetchWorkRunId = %.*s\nFetchWorkToken = \"%s\"\nJobPid = %ld\n",
             (int)(colon - first), first, colon + 1, (long)getpid());
    hook.body = (struct text){body, strlen(body)};
    hook.read = true;
    unsetenv(FIRST);
    chain.base = environ;
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    chain.starter = getppid();
    alarm(0);
    sigemptyset(&chain.waited);
    sigaddset(&chain.waited, SIGCHLD);
    for (size_t at = 0; at < sizeof ENDING / sizeof *ENDING; at++)
        sigaddset(&chain.waited, ENDING[at]);
    sigprocmask(SIG_BLOCK, &chain.waited, &chain.before);
    make_scratch();
}

/* Run the chain; return the exit status of this program. */
int run_chain(void)
{
    struct reply reply;
    set_up();
    set_argument("");
    if (!ask_agent("chain_first", NULL, &reply)) {
        /* its agent may have been another: the job has not begun, and waits again */
        complain("the agent does not give the chain's first job");
        set_argument("evict");
        become_job_exit();
    }
    while (reply.body.length) {
        struct text rest = kept(reply.body), ad = next_ad(&rest);
        struct chain_job job;
        if (!ad.at || ad.length > MOST_AD)
            give_up("the agent's answer is too large");
        char check[MAX_HEAD / 2] = "";
        struct rusage used = {0};
        struct timespec start;
        pid_t pid = 0;
        int status = 0;
        fill_scratch(rest);
        clock_gettime(CLOCK_REALTIME, &start);
        double began = now();
        if (!read_chain_job(ad, chain.base, chain.top, chain.scratch, &job))
            give_up("no memory for the job's ad");
        chain.evicted = is_told_to_end();
        if (!chain.evicted)
            pid = start_chain_job(&job, &chain.before, check, sizeof check);
        if (pid)
            status = wait_for_job(pid, job.kill_signal, &used);
        double seconds = now() - began;
        for (double end = now() + KILLED_S; pid && was_killed(status) && now() < end;) {
            struct timespec pause = {0, (long)(KILLED_S * 1e8)};
            nanosleep(&pause, NULL);
        }
        bool ended = end_left(&used);
        clean_scratch();
        /* of a job that outlives its starter the agent can't tell whether it ended by itself */
        chain.evicted = chain.evicted || getppid() != chain.starter;
        set_argument(chain.evicted || !ended ? "evict" : "exit");
        hook.body = report(&job, pid, status, seconds, start.tv_sec, &used);
        /* JOB_EXIT gets no next job */
        if ((!chain.evicted && is_told_to_end()) || !ask_agent("chain_next", *check ? check : NULL, &reply))
            become_job_exit();
        if (chain.evicted || !ended)
            return 0;
    }
    return 0;
}
