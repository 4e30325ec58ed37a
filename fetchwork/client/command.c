/* HTCondor's commands and fetchwork's as one compiled program: has a command run by this host's access point.
 *
 * It stands under each command's name in the directory that `fetchwork env` puts first in PATH, beside
 * condor-command.py, which is the same in Python (`fetchwork/condor/directory.py`).
 *
 * Theory of operation
 * -------------------
 * Starting an interpreter and its imports takes longer than most commands' work. The access point has a process
 * with all imports done and forks it. The child takes on the caller's rights, gets this process's words,
 * environment, umask, directory and standard streams, works on these streams itself, and sends the exit status
 * of this program (`fetchwork/accesspoint/command.py` is the other side).
 *
 * If that is impossible (no access point, a refusal, another version, or a command that is not run there), this
 * program becomes condor-command.py by exec: the same command, a little later. It does the same if the access
 * point goes away before the command has printed or read anything. A key names the submission, so jobs that were
 * submitted by then are not submitted again. Later it can only report the loss.
 *
 * A signal that ends this program ends the command, because the kernel closes the connection.
 *
 * It needs POSIX, and Linux's /proc, getrandom and AT_EXECFN.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION "none"
#endif

/* as in fetchwork/client/link.py */
static const char SOCKET[] = "/run/fetchwork/access-point.sock";
static const char *const OF_DATABASE[] = {"FETCHWORK_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"};
/* the socket for commands is beside the one for requests */
static const char SUFFIX[] = ".commands";
static const char MAGIC[4] = {'F', 'W', 'C', '1'};

enum {
    /* bytes of a request; a process's environment and words are smaller unless limits are odd */
    MAX_REQUEST = 8 * 1024 * 1024,
    /* time for the access point to take the request, and to begin with the command */
    SEND_S = 10,
    BEGIN_MS = 30 * 1000,
};

extern char **environ;

static struct {
    char **argv;
    const char *path;
    char key[33];
} command;

struct buffer {
    char *data;
    size_t size, capacity;
};

static _Noreturn void fail(const char *problem)
{
    const char *slash = strrchr(command.path, '/');
    dprintf(2, "%s: %s\n", slash ? slash + 1 : command.path, problem);
    _exit(1);
}

/* Become the command in Python. */
static _Noreturn void in_python(void)
{
    static char program[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", program, PATH_MAX - 1);
    if (length <= 0) {
        length = snprintf(program, PATH_MAX, "%s", command.path);
        length = length < PATH_MAX ? length : PATH_MAX - 1;
    }
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    strcpy(slash ? slash + 1 : program, "condor-command.py");
    size_t count = 0;
    while (command.argv[count])
        count++;
    /* the kernel replaces a script's first word by its path, so the command's own word follows it */
    char **words = calloc(count + 3, sizeof *words);
    if (!words)
        fail(strerror(ENOMEM));
    words[0] = program;
    words[1] = (char *)command.path;
    for (size_t at = 1; at < count; at++)
        words[at + 1] = command.argv[at];
    if (*command.key)
        setenv("FETCHWORK_SUBMISSION_KEY", command.key, 1);
    else
        unsetenv("FETCHWORK_SUBMISSION_KEY");
    execv(program, words);
    char problem[PATH_MAX + 128];
    snprintf(problem, sizeof problem, "cannot start '%s': %s", program, strerror(errno));
    fail(problem);
}

static void add(struct buffer *buffer, const char *text)
{
    size_t length = strlen(text) + 1;
    if (buffer->size + length > buffer->capacity) {
        buffer->capacity = 2 * (buffer->size + length);
        buffer->data = realloc(buffer->data, buffer->capacity);
        if (!buffer->data)
            in_python();
    }
    memcpy(buffer->data + buffer->size, text, length);
    buffer->size += length;
}

static void add_number(struct buffer *buffer, unsigned long long number)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", number);
    add(buffer, text);
}

/* The access point's socket for commands; NULL if they use a database. */
static const char *socket_path(void)
{
    const char *named = getenv("FETCHWORK_ACCESS_POINT");
    if (named)
        return *named && strcmp(named, "none") != 0 ? named : NULL;
    for (size_t at = 0; at < sizeof OF_DATABASE / sizeof *OF_DATABASE; at++) {
        const char *value = getenv(OF_DATABASE[at]);
        if (value && *value)
            return NULL;
    }
    return SOCKET;
}

static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = socket_path();
    if (!path || strlen(path) + sizeof SUFFIX > sizeof address.sun_path)
        in_python();
    memcpy(address.sun_path, path, strlen(path));
    memcpy(address.sun_path + strlen(path), SUFFIX, sizeof SUFFIX);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {SEND_S, 0};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        in_python();
    return fd;
}

static void make_key(void)
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        in_python();
    for (size_t at = 0; at < sizeof random; at++)
        sprintf(command.key + 2 * at, "%02x", random[at]);
}

/* MAGIC, the length of the rest in four bytes, and the rest: texts, each with a NUL behind it. */
static struct buffer request(void)
{
    struct buffer body = {0};
    struct stat space, root;
    if (stat("/proc/self/ns/mnt", &space) != 0 || stat("/", &root) != 0)
        in_python();
    mode_t mask = umask(077);
    umask(mask);
    add(&body, "12345678");
    body.size = sizeof MAGIC + 4;
    add(&body, VERSION);
    add(&body, command.key);
    add_number(&body, mask);
    /* paths must mean the same there as here */
    add_number(&body, space.st_ino);
    add_number(&body, root.st_dev);
    add_number(&body, root.st_ino);
    unsigned count = 0;
    while (command.argv[count])
        count++;
    add_number(&body, count);
    add(&body, command.path);
    for (unsigned at = 1; at < count; at++)
        add(&body, command.argv[at]);
    for (char **variable = environ; *variable; variable++)
        add(&body, *variable);
    if (count == 0 || body.size > MAX_REQUEST)
        in_python();
    uint32_t length = htonl((uint32_t)(body.size - sizeof MAGIC - 4));
    memcpy(body.data, MAGIC, sizeof MAGIC);
    memcpy(body.data + sizeof MAGIC, &length, sizeof length);
    return body;
}

static void send_request(int fd)
{
    struct buffer body = request();
    int streams[4] = {0, 1, 2, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (streams[3] < 0)
        in_python();
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof streams)];
    } control = {0};
    struct iovec part = {body.data, body.size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(&control.head), streams, sizeof streams);
    while (part.iov_len) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            in_python();
        part.iov_base = (char *)part.iov_base + sent;
        part.iov_len -= (size_t)sent;
        message.msg_control = NULL;
        message.msg_controllen = 0;
    }
    close(streams[3]);
}

/* The next byte of the answer; -1 at its end. */
static int next_byte(int fd)
{
    unsigned char byte;
    ssize_t got;
    do
        got = recv(fd, &byte, 1, 0);
    while (got < 0 && errno == EINTR);
    return got == 1 ? byte : -1;
}

/* Wait for the command's end, and return its status. The other side says
 *     b  it begins
 *     u  it is about to use a stream
 *     p  Python must run it
 *     s  it has ended, with the status in the byte that follows
 */
static int follow(int fd)
{
    struct pollfd waiter = {fd, POLLIN, 0};
    int ready;
    do
        ready = poll(&waiter, 1, BEGIN_MS);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
        close(fd);
        in_python();
    }
    for (bool used = false;;)
        switch (next_byte(fd)) {
        case 'b':
            break;
        case 'u':
            used = true;
            break;
        case 's': {
            int status = next_byte(fd);
            if (status >= 0)
                return status;
        }
            /* fall through */
        default:
            if (!used) {
                close(fd);
                in_python();
            }
            fail("the access point ended before the command did: what it has done so far, it has done");
        }
}

static void interrupted(int number)
{
    (void)number;
    /* as Python exits */
    _exit(130);
}

int main(int argc, char **argv)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    command.argv = argv;
    command.path = path ? path : argc > 0 ? argv[0] : "condor-command";
    /* the access point runs no command for root, nor for set-uid rights */
    if (argc == 0 || geteuid() == 0 || geteuid() != getuid() || getegid() != getgid())
        in_python();
    if (signal(SIGINT, interrupted) == SIG_IGN)
        signal(SIGINT, SIG_IGN);
    for (int stream = 0; stream < 3; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            in_python();
    int fd = connected();
    make_key();
    send_request(fd);
    _exit(follow(fd));
}
