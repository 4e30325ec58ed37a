/* A job of a chain: what its ad says of its process, and the process itself.
 *
 * The ad is the one that the starter would get. The environment is in HTCondor's V2 syntax; arguments are in V2
 * ("Arguments"), or in the old syntax ("Args").
 */
#include "hook.h"

#include <signal.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/wait.h>

enum { CMD, ARGUMENTS, ARGS, ENVIRONMENT, IWD, IN, OUT, ERR, KILL_SIG, RUN_ID, TOKEN, HAS_POLICY, WANTED };

static const char *const NAMES[WANTED] = {
    "cmd", "arguments", "args", "environment", "iwd", "in", "out", "err", "killsig", "fetchworkrunid", "fetchworktoken",
    "fetchworkhaspolicy",
};

/* the starter's variables that a job can't set itself; it may set all others, as the number of its threads */
static bool is_of_starter(const char *variable)
{
    static const char *const WORDS[] = {"_CONDOR_", "BATCH_SYSTEM=", "CUDA_VISIBLE_DEVICES=",
                                        "NVIDIA_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="};
    for (size_t at = 0; at < sizeof WORDS / sizeof *WORDS; at++)
        if (strncmp(variable, WORDS[at], strlen(WORDS[at])) == 0)
            return true;
    return false;
}

/* Copy a value as text to `out`; an escape of new syntax counts if `escaped`. */
static char *copy_value(struct text value, bool escaped, char *out)
{
    static const char LETTERS[] = "abfnrtv", MEANT[] = "\a\b\f\n\r\t\v";
    for (size_t at = 0; at < value.length; at++) {
        char one = value.at[at];
        if (one != '\\' || at + 1 == value.length || (!escaped && value.at[at + 1] != '"')) {
            *out++ = one;
            continue;
        }
        one = value.at[++at];
        const char *letter = strchr(LETTERS, one);
        if (escaped && one >= '0' && one <= '7') {
            int code = 0;
            size_t end = at + 3;
            for (; at < end && at < value.length && value.at[at] >= '0' && value.at[at] <= '7'; at++)
                code = code * 8 + (value.at[at] - '0');
            at--;
            *out++ = (char)code;
        } else {
            *out++ = escaped && letter ? MEANT[letter - LETTERS] : one;
        }
    }
    *out++ = '\0';
    return out;
}

/* the value of an attribute that the ad lacks */
static const char absent[] = "";

/* Point `values` at the wanted attributes' texts, which are written to `room`. */
static void read_values(struct text ad, const char *values[WANTED], char *room)
{
    static const char eval[] = "eval(\"\\\"";
    struct text line;
    for (int at = 0; at < WANTED; at++)
        values[at] = absent;
    while (next_part(&ad, '\n', &line)) {
        const char *sign = memmem(line.at, line.length, " = ", 3);
        for (int at = 0; sign && at < WANTED; at++) {
            size_t length = (size_t)(sign - line.at);
            if (strlen(NAMES[at]) != length || strncasecmp(line.at, NAMES[at], length) != 0)
                continue;
            struct text value = {sign + 3, line.length - length - 3};
            values[at] = room;
            if (starts_with(value, eval) && value.length > sizeof eval + 3) {
                /* a string with control characters: a literal of new syntax within one of old syntax */
                struct text inner = {value.at + 6, value.length - 8};
                char *end = copy_value(inner, false, room) - 1;
                struct text literal = {room + 1, (size_t)(end - room) - 2};
                char *copy = strndup(literal.at, literal.length);
                if (copy)
                    room = copy_value((struct text){copy, strlen(copy)}, true, room);
                free(copy);
            } else {
                if (value.length >= 2 && *value.at == '"')
                    value = (struct text){value.at + 1, value.length - 2};
                room = copy_value(value, false, room);
            }
        }
    }
}

/* Split a text into words, written to `room`: blanks separate. In V2 syntax single quotes group, and two of them
 * within quotes are one; in the old syntax nothing does. Returns their number, `most` at most. */
static size_t split_words(const char *text, bool is_v2, char **words, size_t most, char *room)
{
    size_t count = 0;
    bool started = false, quoted = false;
    for (;; text++) {
        if (*text == '\0' || (!quoted && strchr(" \t\n\r", *text))) {
            if (started)
                *room++ = '\0';
            started = false;
            if (*text == '\0' || count == most)
                return count;
            continue;
        }
        if (!started)
            words[count++] = room;
        started = true;
        if (*text == '\'' && quoted && text[1] == '\'')
            *room++ = *text++;
        else if (*text == '\'' && is_v2)
            quoted = !quoted;
        else
            *room++ = *text;
    }
}

static int signal_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } SIGNALS[] = {
        {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},   {"TRAP", SIGTRAP},
        {"ABRT", SIGABRT}, {"BUS", SIGBUS},   {"FPE", SIGFPE},   {"KILL", SIGKILL}, {"USR1", SIGUSR1},
        {"SEGV", SIGSEGV}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},
        {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},
        {"TTOU", SIGTTOU}, {"URG", SIGURG},   {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM},
        {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},   {"SYS", SIGSYS},
    };
    if (*name >= '0' && *name <= '9') {
        long number = strtol(name, NULL, 10);
        return number > 0 && number < 65 ? (int)number : SIGTERM;
    }
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t at = 0; at < sizeof SIGNALS / sizeof *SIGNALS; at++)
        if (strcasecmp(name, SIGNALS[at].name) == 0)
            return SIGNALS[at].number;
    return SIGTERM;
}

/* the texts made for the present job */
static char **made;
static size_t made_count;

static void forget_made(void)
{
    while (made_count)
        free(made[--made_count]);
}

/* Print a text that lasts until the next job; NULL without memory. */
static __attribute__((format(printf, 1, 2))) char *print(const char *format, ...)
{
    char *text = NULL, **more = realloc(made, (made_count + 1) * sizeof *made);
    va_list values;
    if (!more)
        return NULL;
    made = more;
    va_start(values, format);
    if (vasprintf(&text, format, values) < 0)
        text = NULL;
    va_end(values);
    if (text)
        made[made_count++] = text;
    return text;
}

static char *joined(const char *directory, const char *path)
{
    return *path == '/' ? print("%s", path) : print("%s/%s", directory, path);
}

static const char *name_end(const char *variable)
{
    const char *sign = strchr(variable, '=');
    return sign ? sign + 1 : variable + strlen(variable);
}

/* The job's environment: the starter's, with `scratch` for the starter's directory `top`, and its own. */
static char **environment(char **base, char **own, size_t owned, const char *iwd, const char *top, const char *scratch)
{
    size_t count = owned;
    for (char **one = base; *one; one++)
        count++;
    char **all = calloc(count + 1, sizeof *all);
    size_t used = 0, length = strlen(top);
    for (; all && *base; base++) {
        const char *value = name_end(*base);
        size_t name = (size_t)(value - *base);
        bool set = false;
        for (size_t at = 0; at < owned && !set; at++)
            set = strncmp(own[at], *base, name) == 0;
        if (set && !is_of_starter(*base))
            continue;
        bool within = length && strncmp(value, top, length) == 0 && (value[length] == '/' || !value[length]);
        char *variable = *base;
        if (strncmp(variable, "_CONDOR_JOB_IWD=", name) == 0)
            variable = print("_CONDOR_JOB_IWD=%s", iwd);
        else if (within)
            variable = print("%.*s%s%s", (int)name, variable, scratch, value + length);
        if (variable)
            all[used++] = variable;
    }
    for (size_t at = 0; all && at < owned; at++) {
        size_t name = (size_t)(name_end(own[at]) - own[at]);
        bool later = false;
        for (size_t next = at + 1; next < owned && !later; next++)
            later = strncmp(own[next], own[at], name) == 0;
        bool taken = false;
        for (size_t before = 0; before < used && !taken; before++)
            taken = is_of_starter(own[at]) && strncmp(all[before], own[at], name) == 0;
        if (!later && !taken && name && own[at][name - 1] == '=')
            all[used++] = own[at];
    }
    return all;
}

/* Read a job's ad; false if the memory does not suffice. `job` is valid until the next call. */
bool read_chain_job(struct text ad, char **base, const char *top, const char *scratch, struct chain_job *job)
{
    static char *room, *word_room, **words, **variables, **environ_of_job;
    const char *values[WANTED];
    free(room);
    free(word_room);
    free(words);
    free(variables);
    free(environ_of_job);
    forget_made();
    /* a value is shorter than its line; a word has at least one character and a blank */
    size_t most = ad.length / 2 + 2;
    room = malloc(ad.length + WANTED + 1);
    word_room = malloc(2 * ad.length + 2 * most + 2);
    words = calloc(most + 2, sizeof *words);
    variables = calloc(most + 1, sizeof *variables);
    if (!room || !word_room || !words || !variables)
        return false;
    read_values(ad, values, room);
    memset(job, 0, sizeof *job);
    job->run_id = values[RUN_ID];
    job->token = values[TOKEN];
    job->has_policy = strcasecmp(values[HAS_POLICY], "true") == 0;
    job->iwd = *values[IWD] ? values[IWD] : "/";
    job->in = *values[IN] ? joined(job->iwd, values[IN]) : "/dev/null";
    job->out = *values[OUT] ? joined(job->iwd, values[OUT]) : "/dev/null";
    job->err = *values[ERR] ? joined(job->iwd, values[ERR]) : "/dev/null";
    job->cmd = joined(job->iwd, values[CMD]);
    bool is_v2 = values[ARGUMENTS] != absent;
    job->arguments = values[is_v2 ? ARGUMENTS : ARGS];
    job->kill_signal = signal_of(values[KILL_SIG]);
    if (!job->in || !job->out || !job->err || !job->cmd)
        return false;
    words[0] = job->cmd;
    split_words(job->arguments, is_v2, words + 1, most, word_room);
    job->argv = words;
    size_t owned = split_words(values[ENVIRONMENT], true, variables, most, word_room + ad.length + most + 1);
    job->environment = environ_of_job = environment(base, variables, owned, job->iwd, top, scratch);
    return job->environment != NULL;
}

/* -- the process */

/* the step at which the start of the job has failed, and errno; the child writes them into the memory it shares */
static volatile enum { NOWHERE, AT_IWD, AT_IN, AT_OUT, AT_ERR, AT_CMD } failed_at;
static volatile int failure;

/* the signals that this process ignores */
enum { MOST_SIGNALS = 65 };
static bool ignored[MOST_SIGNALS];

static void note_ignored(void)
{
    for (int number = 1; number < MOST_SIGNALS; number++) {
        struct sigaction present;
        ignored[number] = sigaction(number, NULL, &present) == 0 && present.sa_handler == SIG_IGN;
    }
}

static _Noreturn void fail(int at)
{
    failure = errno;
    failed_at = at;
    _exit(127);
}

static void open_as(int target, const char *path, int flags, int at)
{
    int fd = open(path, flags, 0666);
    if (fd < 0)
        fail(at);
    if (fd != target) {
        dup2(fd, target);
        close(fd);
    }
}

static _Noreturn void become(const struct chain_job *job, const sigset_t *mask)
{
    setsid();
    if (chdir(job->iwd) != 0)
        fail(AT_IWD);
    open_as(0, job->in, O_RDONLY, AT_IN);
    open_as(1, job->out, O_WRONLY | O_CREAT | O_TRUNC, AT_OUT);
    if (strcmp(job->out, job->err) == 0)
        dup2(1, 2);
    else
        open_as(2, job->err, O_WRONLY | O_CREAT | O_TRUNC, AT_ERR);
    for (int number = 1; number < MOST_SIGNALS; number++)
        if (ignored[number])
            signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execve(job->cmd, job->argv, job->environment);
    fail(AT_CMD);
}

/* Start the job's process; return its pid, or 0 if it could not be started: `check` then has the problem, in
 * the words of jobcheck.py and of the starter, as one line of MAX_HEAD / 2 bytes at most. */
pid_t start_chain_job(const struct chain_job *job, const sigset_t *mask, char *check, size_t size)
{
    static bool noted;
    if (!noted)
        note_ignored();
    noted = true;
    failed_at = NOWHERE;
    pid_t pid = vfork();
    if (pid == 0)
        become(job, mask);
    const char *cause = strerror(pid < 0 ? errno : failure);
    int number = pid < 0 ? errno : failure;
    if (pid > 0 && failed_at == NOWHERE)
        return pid;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    char text[MAX_HEAD];
    switch (pid < 0 ? AT_CMD : failed_at) {
    case AT_IWD:
        snprintf(text, sizeof text, "Cannot access initial working directory %s: %s", job->iwd, cause);
        break;
    case AT_IN:
    case AT_OUT:
    case AT_ERR:
        snprintf(text, sizeof text, "Failed to open '%s' as standard %s: %s (errno %d)",
                 failed_at == AT_IN ? job->in : failed_at == AT_OUT ? job->out : job->err,
                 failed_at == AT_IN ? "input" : failed_at == AT_OUT ? "output" : "error", cause, number);
        break;
    default:
        snprintf(text, sizeof text, "Failed to execute '%.1000s'%s%.1000s: (errno=%d: '%s')", job->cmd,
                 *job->arguments ? " with arguments " : "", job->arguments, number, cause);
    }
    one_line((struct text){text, strlen(text)}, size / 4 - 2, check);
    return 0;
}
