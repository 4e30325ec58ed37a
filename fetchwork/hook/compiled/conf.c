/* hook.conf and the hook's deadline. */
#include "hook.h"

struct conf conf;

static const char *strip(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Parse hook.conf; false if only Python can read it. */
bool parse_conf(char *text, size_t length)
{
    char own[64];
    snprintf(own, sizeof own, "%s_deadline_s", hook.kind.name);
    const struct {
        const char *key, **value;
    } known[] = {
        {"keyword", &conf.keyword},
        {"socket", &conf.socket},
        {"deadline_s", &conf.deadline_s},
        {own, &conf.own_deadline_s},
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

void read_conf(void)
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

void set_deadline(void)
{
    const char *text = conf.own_deadline_s ? conf.own_deadline_s : conf.deadline_s;
    if (text) {
        /* a number that Python might read otherwise is left to Python */
        char *end;
        double wanted = strtod(text, &end);
        if (*text < '0' || *text > '9' || strspn(text, "0123456789.") != strlen(text) || *end || wanted < 1.0 ||
            wanted > 86400.0)
            hand_over("afresh", "%s", "");
        /* only FETCH_WORK may exceed its default: during the others the startd or starter waits */
        if (is_hook("fetch_work") || wanted < hook.kind.total_s)
            hook.kind.total_s = wanted;
    }
    hook.end = hook.start + hook.kind.total_s;
    set_timer(hook.kind.total_s);
}
