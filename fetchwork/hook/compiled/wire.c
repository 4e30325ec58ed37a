/* Parses the agent's reply, as wire.py does. */
#include "hook.h"

static enum outcome broken(char *why, const char *format, struct text shown)
{
    char line[4 * 40 + 8];
    snprintf(why, MAX_CAUSE, format, one_line(shown, 40, line));
    return BROKEN;
}

/* The value of the header with this name; NULL with length 0 if it is absent. */
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

/* Parse the part of a reply that was received so far. `why` has room for MAX_CAUSE bytes. */
enum outcome parse_reply(struct text data, struct reply *reply, char *why)
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
