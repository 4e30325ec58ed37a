/* Asks the agent, as link.py does. */
#include "hook.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

static int connect_agent(double end)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(conf.socket) >= sizeof address.sun_path)
        hand_over("afresh", "%s", "");
    memcpy(address.sun_path, conf.socket, strlen(conf.socket) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        /* EAGAIN: the agent's backlog of connections is full */
        if (errno != EAGAIN && errno != EINTR)
            hand_over("unanswered", "cannot connect to agent socket '%s': %s", conf.socket, strerror(errno));
        double left = end - now();
        if (left <= 0)
            hand_over("unanswered", "agent does not answer");
        struct timespec pause = {0, left < 0.02 ? (long)(left * 1e9) : 20 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    return fd;
}

/* Send all parts with one call if possible: after a partial request the agent would wake up twice. */
static void send_parts(int fd, struct iovec *parts, size_t count, double end)
{
    for (struct iovec *stop = parts + count; parts < stop;) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)(stop - parts)};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        /* an agent that refuses a request answers before it has read all of it */
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return;
        if (sent < 0 && errno == EAGAIN && !wait_for(fd, POLLOUT, end))
            hand_over("unanswered", "agent does not answer");
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            hand_over("unanswered", "agent broke the connection: %s", strerror(errno));
        size_t taken = sent < 0 ? 0 : (size_t)sent;
        for (; parts < stop && taken >= parts->iov_len; parts++)
            taken -= parts->iov_len;
        if (parts < stop) {
            parts->iov_base = (char *)parts->iov_base + taken;
            parts->iov_len -= taken;
        }
    }
}

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
    if (request.check)
        used += (size_t)snprintf(head + used, sizeof head - used, "check: %s\n", request.check);
    if (request.files.length)
        used += (size_t)snprintf(head + used, sizeof head - used, "files: %zu\n", request.files.length);
    double left_ms = (end - now()) * 1000;
    used += (size_t)snprintf(head + used, sizeof head - used, "deadline_ms: %d\nlength: %zu\n\n",
                             left_ms < 1 ? 1 : (int)left_ms, hook.body.length + request.files.length);
    struct iovec parts[] = {
        {head, used},
        {(char *)hook.body.at, hook.body.length},
        {(char *)request.files.at, request.files.length},
    };
    send_parts(fd, parts, sizeof parts / sizeof *parts, end);
}

/* Ask the agent. The connection stays open for the next request, until which the reply is valid. */
struct reply ask(struct request request, double end)
{
    static char why[MAX_CAUSE], *data;
    static size_t capacity;
    static int fd = -1;
    struct reply reply;
    bool used = fd >= 0;
    if (!used)
        fd = connect_agent(end);
    int connection = fd;
    /* only a whole reply leaves a connection that can be used again */
    fd = -1;
    send_request(connection, request, end);
    for (size_t size = 0;;) {
        if (size == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            data = realloc(data, capacity);
            if (!data)
                hand_over("unanswered", "agent broke the connection: %s", strerror(ENOMEM));
        }
        ssize_t got = recv(connection, data + size, capacity - size, 0);
        if (got < 0 && errno == EAGAIN) {
            if (!wait_for(connection, POLLIN, end))
                hand_over("unanswered", "agent does not answer");
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 && size == 0 && used) {
            /* it was closed since the last request: agents close what is idle */
            close(connection);
            return ask(request, end);
        }
        if (got < 0)
            hand_over("unanswered", "agent broke the connection: %s", strerror(errno));
        if (got == 0)
            hand_over("unanswered", "agent closed the connection before it answered");
        size += (size_t)got;
        enum outcome outcome = parse_reply((struct text){data, size}, &reply, why);
        if (outcome == BROKEN)
            hand_over("unanswered", "%s", why);
        if (outcome == WHOLE) {
            fd = connection;
            return reply;
        }
        if (now() >= end)
            hand_over("unanswered", "agent does not answer");
    }
}
