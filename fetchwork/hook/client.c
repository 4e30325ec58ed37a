/* The hooks as one compiled program: what client.py does where an agent answers, without an interpreter.
 *
 * It speaks PROTOCOL.md. `fetchwork hooks install --compiled` builds it, and lays it in place of each hook;
 * the hook in Python, which is the reference, then stands beside it as NAME.py.
 *
 * Theory of operation
 * -------------------
 * Nearly every call of a hook goes well: read stdin, ask the agent, print its answer. That is done here. For
 * everything else (no agent, direct mode, a report for the spool, a job with a problem, the end of a job's
 * output, anything odd in hook.conf or in an answer) this program becomes the hook in Python by exec, and
 * tells it in FETCHWORK_HANDOVER what has happened so far: the hook's deadline goes on, the agent is not
 * asked a second time, and what people read is written in one place. handover.py is the other side.
 *
 * So the checks of prepare_job say here only "certainly no problem" or "let Python look".
 *
 * It needs POSIX, and of Linux memfd_create and AT_EXECFN. Each wait is a poll against one deadline of the
 * monotonic clock; behind them stands an interval timer, which goes on after exec.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define VERSION "fetchwork/1"
#ifndef BUILD
#define BUILD "none"
#endif

enum {
    MAX_HEAD = 8 * 1024,
    MAX_BODY = 16 * 1024 * 1024,
    MAX_CONF = 65536,
    MAX_CAUSE = MAX_HEAD,
    /* of files within a request or an answer (fetchwork/sandbox/inline.py) */
    MOST_INPUT = 2 << 20,
    MOST_OUTPUT = 512 << 10,
    MOST_FILES = 64,
    MOST_NOTES = 256 << 10,
    /* pipes take this much without blocking once they are writable (PIPE_BUF) */
    PIPE_CHUNK = 4096,
};

/* how long after its deadline a hook that did not notice it is ended by a signal */
static const double GRACE_S = 2.0;

/* what `fetchwork doctor` looks for in the executable */
static const char marker[] __attribute__((used)) = "fetchwork-hook protocol=" VERSION " build=" BUILD;

struct text {
    const char *at;
    size_t length;
};

/* a hook, and its seconds: in all, and of them for the agent where direct mode may follow it */
struct kind {
    const char *name;
    double total_s, agent_s;
};

static const struct kind KINDS[] = {
    {"fetch_work", 75.0, 75.0},   {"reply_fetch", 10.0, 5.0},     {"evict_claim", 10.0, 5.0},
    {"prepare_job", 20.0, 10.0},  {"update_job_info", 15.0, 8.0}, {"job_exit", 20.0, 8.0},
};

static struct {
    struct kind kind;
    int argc;
    char **argv;
    double start, end;
    /* the directory that the hook was called from, and the one that it is installed in */
    char called_from[PATH_MAX], home[PATH_MAX];
    char *body;
    size_t size, capacity;
    /* stdin was read to its end, so whoever comes next gets it from `body` */
    bool read;
} hook;

/* of hook.conf; NULL: not there */
static struct {
    const char *keyword, *socket, *direct_python, *direct_config, *deadline_s, *own_deadline_s;
} conf;

static _Noreturn void hand_over(const char *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* -- time and text */

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void set_timer(double seconds)
{
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
static bool wait_for(int fd, short events, double end)
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

static bool equals(struct text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

static bool starts_with(struct text text, const char *word)
{
    return text.length >= strlen(word) && memcmp(text.at, word, strlen(word)) == 0;
}

static bool is_plain(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

/* Up to the next `stop`, which is taken off `rest` too; false where nothing is left. */
static bool next_part(struct text *rest, char stop, struct text *part)
{
    if (rest->at == NULL)
        return false;
    const char *end = memchr(rest->at, stop, rest->length);
    part->at = rest->at;
    part->length = end ? (size_t)(end - rest->at) : rest->length;
    rest->at = end ? end + 1 : NULL;
    rest->length -= part->length + (end ? 1 : 0);
    return true;
}

/* The next character of UTF-8, which is taken off `text`; -1, and nothing taken, where it is none. */
static long next_character(struct text *text)
{
    static const long LEAST[] = {0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text->at[0];
    int more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : (first & 0xf0) == 0xe0 ? 2
               : first >= 0xf0 && first < 0xf5                  ? 3
                                                                : -1;
    if (more < 0 || (size_t)more >= text->length)
        return -1;
    long character = more == 0 ? first : first & (0x3f >> more);
    for (int at = 1; at <= more; at++) {
        unsigned char next = (unsigned char)text->at[at];
        if ((next & 0xc0) != 0x80)
            return -1;
        character = character << 6 | (next & 0x3f);
    }
    bool surrogate = character >= 0xd800 && character < 0xe000;
    if (character < LEAST[more] || character > 0x10ffff || surrogate)
        return -1;
    text->at += more + 1;
    text->length -= (size_t)more + 1;
    return character;
}

static bool is_utf8(struct text text)
{
    while (text.length)
        if (next_character(&text) < 0)
            return false;
    return true;
}

/* What moves the cursor, breaks the line or can't be seen; Python's isprintable() knows some more. */
static bool is_odd(long character)
{
    static const long RANGES[][2] = {
        {0, 0x1f},         {0x7f, 0xa0},     {0xad, 0xad},     {0x600, 0x605},    {0x61c, 0x61c},
        {0x1680, 0x1680},  {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},  {0x205f, 0x206f},
        {0x3000, 0x3000},  {0xe000, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},  {0xe0000, 0x10ffff},
    };
    for (size_t at = 0; at < sizeof RANGES / sizeof *RANGES; at++)
        if (character >= RANGES[at][0] && character <= RANGES[at][1])
            return true;
    return false;
}

/* `text` as one line of at most `limit` characters, with what is odd as spaces; `out` takes 4 bytes of each. */
static char *one_line(struct text text, size_t limit, char *out)
{
    size_t count = 0, cut = 0, length = 0;
    while (text.length && count <= limit) {
        const char *from = text.at;
        long character = next_character(&text);
        if (count == limit - 3)
            cut = length;
        if (character < 0) {
            text.at++;
            text.length--;
            out[length++] = '?';
        } else if (is_odd(character)) {
            out[length++] = ' ';
        } else {
            memcpy(out + length, from, (size_t)(text.at - from));
            length += (size_t)(text.at - from);
        }
        count++;
    }
    if (count > limit) {
        memcpy(out + cut, "...", 3);
        length = cut + 3;
    }
    out[length] = '\0';
    return out;
}

/* -- leaving */

static void complain(const char *cause)
{
    char text[2 * MAX_CAUSE], line[4 * 500 + 8];
    snprintf(text, sizeof text, "fetchwork %s: %s", hook.kind.name, cause);
    one_line((struct text){text, strlen(text)}, 500, line);
    strcat(line, "\n");
    if (wait_for(2, POLLOUT, now() + 0.2) && write(2, line, strlen(line)) < 0)
        return;
}

/* Only where the hook in Python can't be started: fail in the direction that HTCondor reads correctly. */
static _Noreturn void give_up(const char *cause)
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
static _Noreturn void hand_over(const char *state, const char *format, ...)
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

/* -- hook.conf */

static const char *strip(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Read what hook.conf says; false where it holds what is for Python to read. */
static bool parse_conf(char *text, size_t length)
{
    char own[64];
    snprintf(own, sizeof own, "%s_deadline_s", hook.kind.name);
    const struct {
        const char *key, **value;
    } known[] = {
        {"keyword", &conf.keyword},             {"socket", &conf.socket},
        {"direct_python", &conf.direct_python}, {"direct_config", &conf.direct_config},
        {"deadline_s", &conf.deadline_s},       {own, &conf.own_deadline_s},
    };
    memset(&conf, 0, sizeof conf);
    for (size_t at = 0; at < length; at++)
        if ((text[at] < ' ' && !strchr("\t\n\r", text[at])) || text[at] > '~' || text[at] == '\0')
            return false;
    text[length] = '\0';
    for (char *line = text; line; ) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *value = strchr(line, '=');
        if (value && *line != '#') {
            *value++ = '\0';
            const char *key = strip(line), *stripped = strip(value);
            for (size_t at = 0; at < sizeof known / sizeof *known; at++)
                if (strcmp(key, known[at].key) == 0)
                    *known[at].value = stripped;
        }
        line = next;
    }
    return conf.keyword && conf.socket && is_plain(conf.keyword) && *conf.keyword && *conf.socket;
}

static void read_conf(void)
{
    static char text[MAX_CONF + 1];
    const char *directories[] = {hook.called_from, hook.home};
    for (size_t at = 0; at < 2; at++) {
        char path[PATH_MAX + 16];
        snprintf(path, sizeof path, "%s/hook.conf", directories[at]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            continue;
        ssize_t length = fd < 0 ? -1 : read(fd, text, MAX_CONF);
        if (length < 0 || !parse_conf(text, (size_t)length))
            break;
        close(fd);
        return;
    }
    hand_over("afresh", "%s", "");
}

static void set_deadline(void)
{
    const char *text = conf.own_deadline_s ? conf.own_deadline_s : conf.deadline_s;
    if (text) {
        /* what Python may read otherwise it reads itself */
        char *end;
        double wanted = strtod(text, &end);
        if (*text < '0' || *text > '9' || strspn(text, "0123456789.") != strlen(text) || *end || wanted < 1.0 ||
            wanted > 86400.0)
            hand_over("afresh", "%s", "");
        /* only FETCH_WORK may wait longer than by default: the others keep someone waiting */
        if (strcmp(hook.kind.name, "fetch_work") == 0 || wanted < hook.kind.total_s) {
            hook.kind.agent_s *= wanted / hook.kind.total_s;
            hook.kind.total_s = wanted;
        }
    }
    hook.end = hook.start + hook.kind.total_s;
    set_timer(hook.kind.total_s + GRACE_S);
}

/* -- stdin */

static void read_stdin(void)
{
    for (;;) {
        if (hook.size == hook.capacity) {
            hook.capacity = hook.capacity ? 2 * hook.capacity : 65536;
            hook.body = realloc(hook.body, hook.capacity);
            if (!hook.body)
                hand_over("failed", "cannot read stdin: %s", strerror(ENOMEM));
        }
        if (!wait_for(0, POLLIN, hook.end))
            hand_over("failed", "stdin does not end");
        ssize_t got = read(0, hook.body + hook.size, hook.capacity - hook.size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            hand_over("failed", "cannot read stdin: %s", strerror(errno));
        if (got == 0)
            break;
        hook.size += (size_t)got;
        if (hook.size > MAX_BODY)
            hand_over("failed", "stdin is larger than %d bytes", MAX_BODY);
    }
    hook.read = true;
}

/* -- the job, as its user sees it before its start (jobcheck.py) */

enum { CMD, IWD, IN, OUT, ERR, ARGUMENTS, ENVIRONMENT, WANTCONTAINER, WANTSIF, WANTDOCKERIMAGE,
       WANTSANDBOXIMAGE, SINGULARITYIMAGE, WANTED };

static const char *const WANTED_NAMES[WANTED] = {
    "cmd", "iwd", "in", "out", "err", "arguments", "environment", "wantcontainer",
    "wantsif", "wantdockerimage", "wantsandboximage", "singularityimage",
};

/* a job's attributes: text, or NULL where there is none or it is an expression */
struct job {
    char *literals[WANTED];
    bool given[WANTED];
};

/* The value as text; NULL for an expression. False where Python should read it. */
static bool read_literal(struct text value, char **literal)
{
    while (value.length && value.at[value.length - 1] == '\r')
        value.length--;
    *literal = NULL;
    if (memchr(value.at, '\0', value.length) || starts_with(value, "eval(\""))
        return false;
    bool number = value.length > 0;
    for (size_t at = 0; at < value.length; at++)
        number = number && value.at[at] >= '0' && value.at[at] <= '9';
    bool quoted = value.length >= 2 && value.at[0] == '"' && value.at[value.length - 1] == '"';
    if (!quoted && !number && !equals(value, "true") && !equals(value, "false")) {
        /* Python knows other digits */
        for (size_t at = 0; at < value.length; at++)
            if (value.at[at] & 0x80)
                return false;
        return true;
    }
    if (quoted)
        value = (struct text){value.at + 1, value.length - 2};
    char *out = *literal = malloc(value.length + 1);
    if (!out)
        return false;
    for (size_t at = 0; at < value.length; at++)
        /* in old syntax a backslash is itself, but before a quote */
        if (value.at[at] != '\\' || at + 1 == value.length || value.at[at + 1] != '"')
            *out++ = value.at[at];
    *out = '\0';
    return true;
}

static bool read_job(struct text ad, struct job *job)
{
    struct text line;
    while (next_part(&ad, '\n', &line)) {
        const char *equals_sign = memmem(line.at, line.length, " = ", 3);
        size_t name = equals_sign ? (size_t)(equals_sign - line.at) : 0;
        for (int at = 0; name && at < WANTED; at++)
            if (strlen(WANTED_NAMES[at]) == name && strncasecmp(line.at, WANTED_NAMES[at], name) == 0) {
                free(job->literals[at]);
                job->given[at] = true;
                if (!read_literal((struct text){line.at + name + 3, line.length - name - 3}, &job->literals[at]))
                    return false;
            }
    }
    return true;
}

static void join(const char *directory, const char *path, char *out, size_t size)
{
    if (*path == '/')
        snprintf(out, size, "%s", path);
    else
        snprintf(out, size, "%s/%s", directory, path);
}

static bool has_interpreter(const char *path)
{
    char head[257];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    /* executable, but not readable: a program may be so */
    if (fd < 0)
        return true;
    ssize_t length = read(fd, head, sizeof head - 1);
    close(fd);
    if (length < 0)
        return false;
    head[length] = '\0';
    if (strncmp(head, "#!", 2) != 0)
        return true;
    char *word = head + 2 + strspn(head + 2, " \t\r\v\f");
    word[strcspn(word, " \t\r\v\f\n")] = '\0';
    struct stat status;
    return *word != '/' || stat(word, &status) == 0;
}

static bool may_be_written(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0)
        return !S_ISDIR(status.st_mode) && access(path, W_OK) == 0;
    if (errno != ENOENT)
        return false;
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash)
        return false;
    slash[slash == parent ? 1 : 0] = '\0';
    return stat(parent, &status) == 0 && access(parent, W_OK | X_OK) == 0;
}

static bool files_are_fine(const struct job *job, const char *iwd)
{
    char path[PATH_MAX];
    struct stat status;
    for (int at = 0; at < WANTED; at++)
        if (job->literals[at] && at != ARGUMENTS && at != ENVIRONMENT &&
            strlen(job->literals[at]) + strlen(iwd) + 2 > sizeof path)
            return false;
    if (stat(iwd, &status) != 0 || !S_ISDIR(status.st_mode) || access(iwd, X_OK) != 0)
        return false;
    if (job->literals[CMD] || !job->given[CMD]) {
        if (!job->given[CMD] || !*job->literals[CMD])
            return false;
        join(iwd, job->literals[CMD], path, sizeof path);
        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || access(path, X_OK) != 0 ||
            !has_interpreter(path))
            return false;
    }
    if (job->literals[IN] && *job->literals[IN]) {
        join(iwd, job->literals[IN], path, sizeof path);
        if (stat(path, &status) != 0 || S_ISDIR(status.st_mode) || access(path, R_OK) != 0)
            return false;
    }
    for (int at = OUT; at <= ERR; at++)
        if (job->literals[at] && *job->literals[at]) {
            join(iwd, job->literals[at], path, sizeof path);
            if (!may_be_written(path))
                return false;
        }
    return true;
}

static bool quotes_balance(const char *text)
{
    bool balanced = true;
    for (; text && *text; text++)
        balanced ^= *text == '\'';
    return balanced;
}

/* Whether each word of HTCondor's V2 syntax is NAME=VALUE; quotes balance. */
static bool is_environment(const char *text)
{
    bool started = false, quoted = false, named = false;
    size_t length = 0;
    for (; text && *text; text++) {
        if (*text == '\'' && !(quoted && text[1] == '\'')) {
            quoted = !quoted;
            started = true;
        } else if (strchr(" \t\r\n", *text) && !quoted) {
            if (started && !named)
                return false;
            started = named = false;
            length = 0;
        } else {
            if (*text == '\'')
                text++;
            if (*text == '=' && length == 0 && !named)
                return false;
            named = named || *text == '=';
            started = true;
            length++;
        }
    }
    return !started || named;
}

/* Whether jobcheck.find_problem would find none; false where it might. */
static bool job_is_fine(struct text ad)
{
    struct job job = {0};
    bool fine = read_job(ad, &job);
    /* whether a container can be had is a question for programs */
    for (int at = WANTCONTAINER; at < WANTED; at++)
        fine = fine && !job.given[at];
    if (fine && (job.literals[IWD] || !job.given[IWD]))
        fine = files_are_fine(&job, job.given[IWD] ? job.literals[IWD] : ".");
    fine = fine && quotes_balance(job.literals[ARGUMENTS]) && quotes_balance(job.literals[ENVIRONMENT]) &&
           is_environment(job.literals[ENVIRONMENT]);
    for (int at = 0; at < WANTED; at++)
        free(job.literals[at]);
    return fine;
}

/* -- the agent's reply (wire.py) */

enum outcome { MORE, WHOLE, BROKEN };

struct reply {
    bool ok;
    /* the end of the body is files */
    struct text code, message, stderr_line, body, files;
    long long exit, signal, pid;
};

static enum outcome broken(char *why, const char *format, struct text shown)
{
    char line[4 * 40 + 8];
    snprintf(why, MAX_CAUSE, format, one_line(shown, 40, line));
    return BROKEN;
}

/* The header of that name among lines; the empty text at NULL where it is absent. */
static struct text header(struct text lines, struct text name)
{
    struct text line;
    while (next_part(&lines, '\n', &line))
        if (line.length >= name.length + 2 && memcmp(line.at, name.at, name.length) == 0 &&
            memcmp(line.at + name.length, ": ", 2) == 0)
            return (struct text){line.at + name.length + 2, line.length - name.length - 2};
    return (struct text){NULL, 0};
}

static struct text named(struct text lines, const char *name)
{
    return header(lines, (struct text){name, strlen(name)});
}

static bool read_number(struct text lines, const char *name, long long *number, char *why)
{
    struct text value = named(lines, name);
    *number = 0;
    bool fine = value.at == NULL || (value.length > 0 && value.length <= 12);
    for (size_t at = 0; fine && at < value.length; at++) {
        fine = value.at[at] >= '0' && value.at[at] <= '9';
        *number = *number * 10 + (value.at[at] - '0');
    }
    if (!fine) {
        char line[4 * 40 + 8];
        snprintf(why, MAX_CAUSE, "header '%s' is not a number: '%s'", name, one_line(value, 40, line));
    }
    return fine;
}

static enum outcome check_headers(struct text lines, char *why)
{
    struct text rest = lines, line;
    while (next_part(&rest, '\n', &line)) {
        const char *colon = memmem(line.at, line.length, ": ", 2);
        if (!colon || colon == line.at)
            return broken(why, "not a 'name: value' header: '%s'", line);
        struct text name = {line.at, (size_t)(colon - line.at)};
        if (header(lines, name).at != colon + 2)
            return broken(why, "header '%s' is given twice", name);
    }
    return WHOLE;
}

/* Read a reply of which `data` has come so far. `why` takes MAX_CAUSE bytes. */
static enum outcome parse_reply(struct text data, struct reply *reply, char *why)
{
    memset(reply, 0, sizeof *reply);
    size_t within = data.length < MAX_HEAD ? data.length : MAX_HEAD;
    const char *end = memmem(data.at, within, "\n\n", 2);
    if (!end && data.length < MAX_HEAD)
        return MORE;
    if (!end)
        return snprintf(why, MAX_CAUSE, "head is larger than %d bytes", MAX_HEAD), BROKEN;
    struct text lines = {data.at, (size_t)(end - data.at)}, first;
    if (!is_utf8(lines))
        return snprintf(why, MAX_CAUSE, "head is not UTF-8"), BROKEN;
    next_part(&lines, '\n', &first);
    if (!equals(first, VERSION) && !starts_with(first, VERSION " "))
        return broken(why, "first line is not '" VERSION " ...': '%s'", first);
    long long length, files;
    if (check_headers(lines, why) == BROKEN || !read_number(lines, "length", &length, why))
        return BROKEN;
    if (length > MAX_BODY) {
        snprintf(why, MAX_CAUSE, "body of %lld bytes is larger than %d bytes", length, MAX_BODY);
        return BROKEN;
    }
    size_t before = (size_t)(end + 2 - data.at);
    if (data.length - before < (size_t)length)
        return MORE;
    static const char error[] = VERSION " error ";
    reply->ok = equals(first, VERSION " ok");
    if (starts_with(first, error))
        reply->code = (struct text){first.at + sizeof error - 1, first.length - (sizeof error - 1)};
    if (!reply->ok && (!reply->code.length || memchr(reply->code.at, ' ', reply->code.length)))
        return snprintf(why, MAX_CAUSE, "first line is neither 'ok' nor 'error CODE'"), BROKEN;
    if (!read_number(lines, "exit", &reply->exit, why) || !read_number(lines, "signal", &reply->signal, why) ||
        !read_number(lines, "pid", &reply->pid, why) || !read_number(lines, "files", &files, why))
        return BROKEN;
    if (files > length)
        return snprintf(why, MAX_CAUSE, "%lld bytes of files are more than the body has", files), BROKEN;
    reply->message = named(lines, "message");
    reply->stderr_line = named(lines, "stderr");
    reply->body = (struct text){data.at + before, (size_t)(length - files)};
    reply->files = (struct text){data.at + before + reply->body.length, (size_t)files};
    return WHOLE;
}

/* -- asking the agent */

static int connect_agent(double end)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(conf.socket) >= sizeof address.sun_path)
        hand_over("afresh", "%s", "");
    memcpy(address.sun_path, conf.socket, strlen(conf.socket) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        /* so many connections wait to be accepted that the kernel takes no more */
        if (errno != EAGAIN && errno != EINTR)
            hand_over("unconnected", "cannot connect to agent socket '%s': %s", conf.socket, strerror(errno));
        double left = end - now();
        if (left <= 0)
            hand_over("unconnected", "agent does not answer");
        struct timespec pause = {0, left < 0.02 ? (long)(left * 1e9) : 20 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    return fd;
}

static void send_part(int fd, const char *data, size_t length, double end)
{
    while (length) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent >= 0) {
            data += sent;
            length -= (size_t)sent;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            /* an agent that refuses a request does not read all of it, but has answered */
            return;
        } else if (errno == EAGAIN) {
            if (!wait_for(fd, POLLOUT, end))
                hand_over("connected", "agent does not answer");
        } else if (errno != EINTR) {
            hand_over("connected", "agent broke the connection: %s", strerror(errno));
        }
    }
}

/* What is asked of the agent: what came on stdin, and behind it files. */
struct request {
    const char *name;
    struct text files;
    /* so many bytes of files are taken with the answer */
    int inline_bytes;
};

static void send_request(int fd, struct request request, double end)
{
    const char *arg = hook.argc > 1 ? hook.argv[1] : "", *slot = getenv("_CONDOR_SLOT");
    char head[MAX_HEAD];
    int length = snprintf(head, sizeof head, VERSION " %s\nkeyword: %s\n", request.name, conf.keyword);
    size_t used = (size_t)length;
    if (*arg)
        used += (size_t)snprintf(head + used, sizeof head - used, "arg: %s\n", arg);
    if (slot && *slot)
        used += (size_t)snprintf(head + used, sizeof head - used, "slot: %s\n", slot);
    if (request.inline_bytes)
        used += (size_t)snprintf(head + used, sizeof head - used, "inline: %d\n", request.inline_bytes);
    if (request.files.length)
        used += (size_t)snprintf(head + used, sizeof head - used, "files: %zu\n", request.files.length);
    double left_ms = (end - now()) * 1000;
    used += (size_t)snprintf(head + used, sizeof head - used, "deadline_ms: %d\nlength: %zu\n\n",
                             left_ms < 1 ? 1 : (int)left_ms, hook.size + request.files.length);
    send_part(fd, head, used, end);
    send_part(fd, hook.body, hook.size, end);
    send_part(fd, request.files.at, request.files.length, end);
}

static struct reply ask(struct request request, double end)
{
    static char why[MAX_CAUSE];
    struct reply reply;
    int fd = connect_agent(end);
    send_request(fd, request, end);
    char *data = NULL;
    for (size_t size = 0, capacity = 0;;) {
        if (size == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            data = realloc(data, capacity);
            if (!data)
                hand_over("connected", "agent broke the connection: %s", strerror(ENOMEM));
        }
        ssize_t got = recv(fd, data + size, capacity - size, 0);
        if (got < 0 && errno == EAGAIN) {
            if (!wait_for(fd, POLLIN, end))
                hand_over("connected", "agent does not answer");
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            hand_over("connected", "agent broke the connection: %s", strerror(errno));
        if (got == 0)
            hand_over("connected", "agent closed the connection before it answered");
        size += (size_t)got;
        enum outcome outcome = parse_reply((struct text){data, size}, &reply, why);
        if (outcome == BROKEN)
            hand_over("connected", "%s", why);
        if (outcome == WHOLE)
            return reply;
        if (now() >= end)
            hand_over("connected", "agent does not answer");
    }
}

/* -- its answer */

/* The JobPid of the ad in `body`, as it stands there. */
static struct text job_pid(struct text body)
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
    /* 0 and negative numbers are groups, 1 is init: nothing that a job is */
    if (pid <= 1 || pid > INT_MAX || number < 1 || number > 64 ||
        !equals(job_pid((struct text){hook.body, hook.size}), text))
        hand_over("failed", "agent asks to send signal %lld to process %lld, which is not the job", number, pid);
    if (kill((pid_t)pid, (int)number) != 0 && errno != ESRCH)
        hand_over("failed", "cannot send signal %lld to the job: %s", number, strerror(errno));
}

static void print_answer(struct text body)
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

/* What comes before the next separator, or all that is left. */
static struct text next_ad(struct text *rest)
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

/* PREPARE_JOB: write the ads behind the changes to the job's ad, over the starter's; the changes (adfiles.py). */
static struct text write_ads(struct text body)
{
    static const char *const NAMES[] = {".machine.ad", ".job.ad"};
    struct text rest = body, changes = next_ad(&rest);
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES && rest.length; n++) {
        struct text ad = next_ad(&rest);
        errno = 0;
        int fd = unlink(NAMES[n]) < 0 ? -1 : open(NAMES[n], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        while (fd >= 0 && ad.length) {
            ssize_t put = write(fd, ad.at, ad.length);
            if (put < 0)
                break;
            ad.at += put;
            ad.length -= (size_t)put;
        }
        if (errno != ENOENT && (fd < 0 || ad.length || fchmod(fd, 0644) < 0)) {
            char line[MAX_HEAD];
            snprintf(line, sizeof line, "cannot write '%s': %s", NAMES[n], strerror(errno));
            complain(line);
        }
        if (fd >= 0)
            close(fd);
    }
    return changes;
}

static int deliver(struct reply reply)
{
    if (!reply.ok) {
        struct text cause = reply.message.length ? reply.message : reply.code;
        /* these would be answered the same the next time */
        bool for_good = equals(reply.code, "bad_request") || equals(reply.code, "denied");
        hand_over(for_good ? "failed" : "refused", "agent: %.*s", (int)cause.length, cause.at);
    }
    if (reply.signal)
        signal_job(reply.pid, reply.signal);
    if (reply.stderr_line.length) {
        char line[MAX_HEAD];
        snprintf(line, sizeof line, "%.*s", (int)reply.stderr_line.length, reply.stderr_line.at);
        complain(line);
    }
    print_answer(strcmp(hook.kind.name, "prepare_job") == 0 ? write_ads(reply.body) : reply.body);
    return (int)(reply.exit & 0xff);
}

/* -- few and small files, within the request and its answer (fetchwork/sandbox/inline.py)
 *
 * What is not plain is Python's, which does all of it anew: nothing here is of harm to that.
 */

static const char NOTES[] = ".fetchwork.files", EXECUTABLE[] = "condor_exec.exe";

/* Whether a name can be in a line and in JSON without an escape, and is one at the top of a directory. */
static bool is_plain_name(const char *name)
{
    return *name && is_plain(name) && strlen(name) <= NAME_MAX && !strpbrk(name, "/\"\\") &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Decimal digits and `stop`, which are taken off `text`; false where it begins otherwise. */
static bool take_number(struct text *text, char stop, long long *number)
{
    size_t at = 0;
    for (*number = 0; at < text->length && at < 9 && text->at[at] >= '0' && text->at[at] <= '9'; at++)
        *number = *number * 10 + (text->at[at] - '0');
    if (at == 0 || at == text->length || text->at[at] != stop)
        return false;
    *text = (struct text){text->at + at + 1, text->length - at - 1};
    return true;
}

static bool take(struct text *text, long long length, struct text *part)
{
    if (length < 0 || (size_t)length > text->length)
        return false;
    *part = (struct text){text->at, (size_t)length};
    *text = (struct text){text->at + length, text->length - (size_t)length};
    return true;
}

/* A new file of this name in the working directory; what had it before goes. */
static bool make_file(const char *name, struct text data, mode_t mode)
{
    if (unlink(name) < 0 && errno != ENOENT)
        return false;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (fd >= 0 && data.length) {
        ssize_t put = write(fd, data.at, data.length);
        if (put <= 0)
            break;
        data = (struct text){data.at + put, data.length - (size_t)put};
    }
    bool fine = fd >= 0 && data.length == 0 && fchmod(fd, mode) == 0;
    return (fd < 0 || close(fd) == 0) && fine;
}

static long long changed_at(const struct stat *status)
{
    return (long long)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

/* The files at the top of the working directory as JSON; false where one has a name that is not plain. */
static bool print_catalogue(FILE *out)
{
    DIR *directory = opendir(".");
    const char *comma = "";
    bool fine = directory != NULL;
    for (struct dirent *entry; fine && (entry = readdir(directory)) != NULL;) {
        struct stat status;
        if (fstatat(AT_FDCWD, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        fine = is_plain_name(entry->d_name);
        fprintf(out, "%s\"%s\":[%lld,%lld]", comma, entry->d_name, changed_at(&status),
                (long long)status.st_size);
        comma = ",";
    }
    if (directory)
        closedir(directory);
    return fine;
}

/* Whether nothing is wrong with the job now that its inputs are there; `cmd` is the line that names its program. */
static bool filled_job_is_fine(const char *cmd)
{
    char *ad = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&ad, &size);
    if (!out)
        return false;
    struct text rest = {hook.body, hook.size}, line;
    while (next_part(&rest, '\n', &line))
        if (!starts_with(line, "FetchWorkSandbox = ") && !(*cmd && starts_with(line, "Cmd = ")))
            fprintf(out, "%.*s\n", (int)line.length, line.at);
    fputs(cmd, out);
    bool fine = fclose(out) == 0 && job_is_fine((struct text){ad, size});
    free(ad);
    return fine;
}

/* PREPARE_JOB: fill the working directory; `cmd` takes the line for the starter. False where Python should. */
static bool fill(struct text section, char *cmd, size_t cmd_size)
{
    char home[PATH_MAX], *notes = NULL;
    size_t size = 0;
    long long beginning, brings;
    struct text part;
    if (!getcwd(home, sizeof home) || !is_plain(home) || strpbrk(home, "\"\\") ||
        !take_number(&section, ' ', &beginning) || !take_number(&section, '\n', &brings))
        return false;
    FILE *out = open_memstream(&notes, &size);
    bool fine = out && take(&section, beginning, &part) && fwrite(part.at, 1, part.length, out) == part.length;
    while (fine && section.length) {
        long long mode, length;
        char name[NAME_MAX + 2];
        fine = take_number(&section, ' ', &mode) && take_number(&section, ' ', &length);
        const char *end = fine ? memchr(section.at, '\n', section.length) : NULL;
        fine = end && (size_t)(end - section.at) < sizeof name && take(&section, end - section.at, &part);
        if (!fine)
            break;
        memcpy(name, part.at, part.length);
        name[part.length] = '\0';
        section = (struct text){section.at + 1, section.length - 1};
        fine = is_plain_name(name) && take(&section, length, &part) &&
               make_file(name, part, strcmp(name, EXECUTABLE) == 0 ? 0755 : (mode_t)mode & 0777);
    }
    *cmd = '\0';
    if (brings)
        snprintf(cmd, cmd_size, "Cmd = \"%s/%s\"\n", home, EXECUTABLE);
    fine = fine && filled_job_is_fine(cmd) && print_catalogue(out) && fputs("}}", out) >= 0;
    fine = out && fclose(out) == 0 && fine;
    /* last: JOB_EXIT takes it for a word that all came */
    if (fine && !make_file(NOTES, (struct text){notes, size}, 0600)) {
        unlink(NOTES);
        fine = false;
    }
    free(notes);
    return fine;
}

/* What is a file's of the starter, and never output. */
static bool is_of_the_starter(const char *name)
{
    static const char *const NAMES[] = {
        ".job.ad", ".machine.ad", ".execution_overlay.ad", ".update.ad", ".update.ad.tmp", ".docker_sock",
        ".docker_stdout", ".docker_stderror", ".condor_container_launched", ".chirp.config", NOTES,
        ".fetchwork.checkpoint", ".fetchwork.checkpoint.new", EXECUTABLE, "_condor_stdout", "_condor_stderr",
    };
    for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++)
        if (strcmp(name, NAMES[at]) == 0)
            return true;
    return false;
}

/* What the notes of PREPARE_JOB say: what to take, and the catalogue of that time; false where Python reads them. */
static bool parse_notes(struct text notes, struct text *rule, struct text *before)
{
    static const char first[] = "{\"easy\":\"", second[] = ",\"before\":{";
    struct text rest = {notes.at + sizeof first - 1, notes.length - (sizeof first - 1)};
    if (!starts_with(notes, first) || !next_part(&rest, '"', rule) || rest.at == NULL || rule->length == 0)
        return false;
    const char *at = memmem(rest.at, rest.length, second, sizeof second - 1);
    if (!at || memcmp(notes.at + notes.length - 2, "}}", 2) != 0)
        return false;
    /* from the brace on: there is always a character before an entry */
    at += sizeof second - 2;
    *before = (struct text){at, (size_t)(notes.at + notes.length - at)};
    return true;
}

static bool read_notes(char *text, size_t size, struct text *rule, struct text *before)
{
    int fd = open(NOTES, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size);
    if (fd >= 0)
        close(fd);
    /* one that fills all of it may go on */
    return length >= 0 && (size_t)length < size && parse_notes((struct text){text, (size_t)length}, rule, before);
}

static bool is_as_before(struct text before, const char *name, const struct stat *status)
{
    char entry[NAME_MAX + 64];
    int length = snprintf(entry, sizeof entry, "\"%s\":[%lld,%lld]", name, changed_at(status),
                          (long long)status->st_size);
    const char *at = memmem(before.at, before.length, entry, (size_t)length);
    return at && (at[-1] == '{' || at[-1] == ',');
}

/* What a job left, as it goes into a request. */
struct left {
    FILE *out;
    size_t size;
    int count;
};

/* Add a file; one that is `optional` need not be there. False for what is not plain. */
static bool add_left(struct left *left, const char *name, bool optional)
{
    static char data[MOST_OUTPUT + 1];
    struct stat status;
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return optional && errno == ENOENT;
    bool fine = is_plain_name(name) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                ++left->count <= MOST_FILES && (size_t)status.st_size <= MOST_OUTPUT - left->size;
    size_t got = 0;
    while (fine && got <= (size_t)status.st_size) {
        ssize_t more = read(fd, data + got, (size_t)status.st_size + 1 - got);
        if (more <= 0)
            break;
        got += (size_t)more;
    }
    close(fd);
    /* as long as it is said to be: nobody writes to it any more */
    fine = fine && got == (size_t)status.st_size;
    if (fine) {
        left->size += got;
        fprintf(left->out, "%u %zu %s\n", (unsigned)status.st_mode & 0777, got, name);
        fwrite(data, 1, got, left->out);
    }
    return fine;
}

/* Add the files at the top that are new or changed. */
static bool add_changed(struct left *left, struct text before)
{
    DIR *directory = opendir(".");
    bool fine = directory != NULL;
    for (struct dirent *entry; fine && (entry = readdir(directory)) != NULL;) {
        struct stat status;
        if (is_of_the_starter(entry->d_name) || lstat(entry->d_name, &status) != 0)
            continue;
        /* a link may be to a file */
        if (S_ISLNK(status.st_mode))
            fine = false;
        else if (S_ISREG(status.st_mode) && !is_as_before(before, entry->d_name, &status))
            fine = add_left(left, entry->d_name, false);
    }
    if (directory)
        closedir(directory);
    return fine;
}

/* The files that the job leaves by this rule (inline.py). */
static bool add_by_rule(struct left *left, struct text rule, struct text before)
{
    struct text word;
    bool fine = next_part(&rule, '/', &word);
    if (fine && equals(word, "*"))
        fine = add_changed(left, before);
    else
        fine = fine && equals(word, ".");
    while (fine && next_part(&rule, '/', &word)) {
        char name[NAME_MAX + 1];
        bool optional = starts_with(word, "?");
        if (word.length - optional > NAME_MAX)
            return false;
        snprintf(name, sizeof name, "%.*s", (int)(word.length - optional), word.at + optional);
        fine = add_left(left, name, optional);
    }
    return fine;
}

/* JOB_EXIT: what a job leaves that ended by itself; false where Python should look. */
static bool collect(struct text *files)
{
    static char notes[MOST_NOTES];
    struct text ad = {hook.body, hook.size}, rule, before, line;
    bool ended = false;
    while (next_part(&ad, '\n', &line))
        ended = ended || starts_with(line, "ExitCode = ") || starts_with(line, "ExitSignal = ");
    if (!ended || hook.argc < 2 || strcmp(hook.argv[1], "exit") != 0 ||
        !read_notes(notes, sizeof notes, &rule, &before))
        return false;
    char *data = NULL;
    size_t size = 0;
    struct left left = {open_memstream(&data, &size), 0, 0};
    bool fine = left.out && add_by_rule(&left, rule, before);
    fine = left.out && fclose(left.out) == 0 && fine;
    *files = (struct text){data, size};
    return fine;
}

/* Whether a container is wanted: whether it can be had is a question for programs. */
static bool wants_container(struct text ad)
{
    struct job job = {0};
    bool wants = !read_job(ad, &job);
    for (int at = 0; at < WANTED; at++) {
        wants = wants || (at >= WANTCONTAINER && job.given[at]);
        free(job.literals[at]);
    }
    return wants;
}

static int prepare_with_files(double end)
{
    char cmd[PATH_MAX + 64];
    if (wants_container((struct text){hook.body, hook.size}))
        hand_over("afresh", "%s", "");
    struct reply reply = ask((struct request){"prepare_job", {NULL, 0}, MOST_INPUT}, end);
    /* refused is refused; else without files, or with some that can't be written, it is Python's */
    if (!reply.ok || (reply.exit == 0 && (!reply.files.length || !fill(reply.files, cmd, sizeof cmd))))
        hand_over("afresh", "%s", "");
    if (reply.exit == 0)
        print_answer((struct text){cmd, strlen(cmd)});
    return deliver(reply);
}

static int exit_with_files(double end)
{
    struct text files;
    if (!collect(&files) || !ask((struct request){"job_left", files, 0}, end).ok)
        hand_over("afresh", "%s", "");
    return 0;
}

/* -- JOB_EXIT is the last of its starter's hooks (siblings.py says why) */

/* The start of a file of /proc; empty where there is none. */
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

static void await_updates(void)
{
    struct timespec pause = {0, 2 * 1000 * 1000};
    for (double end = now() + 1.0; is_updating() && now() < end;)
        nanosleep(&pause, NULL);
}

/* -- the hook */

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

/* The name that the hook is installed under, and its directories; as the kernel names a script to Python. */
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
            /* the lowest free descriptor, which is this one */
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
    set_timer(hook.kind.total_s + GRACE_S);
    read_conf();
    set_deadline();
    read_stdin();

    struct text body = {hook.body, hook.size};
    const char *arg = argc > 1 ? argv[1] : "", *slot = getenv("_CONDOR_SLOT");
    bool odd = !is_plain(arg) || strlen(arg) > 40 || (slot && (!is_plain(slot) || strlen(slot) > 200));
    bool tail = strcmp(hook.kind.name, "job_exit") == 0 &&
                memmem(body.at, body.length, "FetchWorkTailBytes", strlen("FetchWorkTailBytes"));
    bool sandbox = (strcmp(hook.kind.name, "job_exit") == 0 || strcmp(hook.kind.name, "prepare_job") == 0) &&
                   memmem(body.at, body.length, "FetchWorkSandbox", strlen("FetchWorkSandbox"));
    /* credentials are Python's */
    bool sealed = strcmp(hook.kind.name, "prepare_job") == 0 &&
                  memmem(body.at, body.length, "FetchWorkCredentials", strlen("FetchWorkCredentials"));
    if (odd || tail || sealed || strlen(conf.keyword) > 200 ||
        (strcmp(hook.kind.name, "prepare_job") == 0 && !sandbox && !job_is_fine(body)))
        hand_over("afresh", "%s", "");
    if (sandbox && strcmp(hook.kind.name, "prepare_job") == 0)
        _exit(prepare_with_files(hook.end));
    if (sandbox) {
        int status = exit_with_files(hook.start + hook.kind.agent_s);
        await_updates();
        _exit(status);
    }

    /* a host file that holds a password is closed to job users: they need the agent */
    bool may_go_direct = conf.direct_python && access(conf.direct_config ? conf.direct_config : "", R_OK) == 0;
    double agent_end = may_go_direct ? hook.start + hook.kind.agent_s : hook.end;
    int status = deliver(ask((struct request){hook.kind.name, {NULL, 0}, 0}, agent_end));
    if (strcmp(hook.kind.name, "job_exit") == 0)
        await_updates();
    _exit(status);
}
