/* Checks the job as its user before its start: a short form of jobcheck.py. */
#include "hook.h"

#include <strings.h>

enum { CMD, IWD, IN, OUT, ERR, ARGUMENTS, ENVIRONMENT, WANTCONTAINER, WANTSIF, WANTDOCKERIMAGE,
       WANTSANDBOXIMAGE, SINGULARITYIMAGE, WANTED };

static const char *const WANTED_NAMES[WANTED] = {
    "cmd", "iwd", "in", "out", "err", "arguments", "environment", "wantcontainer",
    "wantsif", "wantdockerimage", "wantsandboximage", "singularityimage",
};

/* a job's attributes as text; NULL: absent, or an expression */
struct job {
    char *literals[WANTED];
    bool given[WANTED];
    /* the memory of the texts */
    char *room;
};

/* The value as text, stored in `room`; NULL for an expression. False if Python has to read it. */
static bool read_literal(struct text value, char **literal, char **room)
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
    char *out = *literal = *room;
    for (size_t at = 0; at < value.length; at++)
        /* in old syntax a backslash is itself, but before a quote */
        if (value.at[at] != '\\' || at + 1 == value.length || value.at[at + 1] != '"')
            *out++ = value.at[at];
    *out = '\0';
    *room = out + 1;
    return true;
}

/* Read the attributes to check; the caller frees `room`. False if Python has to read them. */
static bool read_job(struct text ad, struct job *job)
{
    struct text line;
    /* a text is shorter than its line */
    char *room = job->room = malloc(ad.length + 1);
    while (room && next_part(&ad, '\n', &line)) {
        const char *equals_sign = memmem(line.at, line.length, " = ", 3);
        size_t name = equals_sign ? (size_t)(equals_sign - line.at) : 0;
        for (int at = 0; name && at < WANTED; at++)
            if (strlen(WANTED_NAMES[at]) == name && strncasecmp(line.at, WANTED_NAMES[at], name) == 0) {
                struct text value = {line.at + name + 3, line.length - name - 3};
                job->given[at] = true;
                if (!read_literal(value, &job->literals[at], &room))
                    return false;
            }
    }
    return room != NULL;
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

/* Whether each word in HTCondor's V2 syntax is NAME=VALUE; the quotes are balanced. */
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

/* the checks of a container run programs, so they are left to Python */
static bool has_container(const struct job *job)
{
    return memchr(job->given + WANTCONTAINER, true, WANTED - WANTCONTAINER) != NULL;
}

/* Whether the job wants a container, or may want one. */
bool wants_container(struct text ad)
{
    struct job job = {0};
    bool wants = !read_job(ad, &job) || has_container(&job);
    free(job.room);
    return wants;
}

/* Whether jobcheck.find_problem would certainly find no problem. */
bool job_is_fine(struct text ad)
{
    struct job job = {0};
    bool fine = read_job(ad, &job) && !has_container(&job);
    if (fine && (job.literals[IWD] || !job.given[IWD]))
        fine = files_are_fine(&job, job.given[IWD] ? job.literals[IWD] : ".");
    fine = fine && quotes_balance(job.literals[ARGUMENTS]) && quotes_balance(job.literals[ENVIRONMENT]) &&
           is_environment(job.literals[ENVIRONMENT]);
    free(job.room);
    return fine;
}
