/* The compiled hook's readers of foreign input, as functions of bytes: hook.conf, the agent's reply, the ad.
 * This file replaces the hook's own main (client.c).
 *
 * The first byte chooses: a the ad of a chain's job, c hook.conf, j the job ad of prepare_job, n the notes of a sandbox, s the JobPid of
 * an ad, r a reply.
 * With -DFUZZER for libFuzzer; else `fuzz_client compare` reads cases on stdin, each as a line with its
 * length and then its bytes, and prints its result in one line: tests compare that with Python's.
 */
#include "../../../fetchwork/hook/compiled/hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void show(const char *name, struct text text)
{
    printf(" %s=", name);
    for (size_t at = 0; at < text.length; at++)
        printf("%02x", (unsigned char)text.at[at]);
}

static void say_reply(struct text data)
{
    static char why[MAX_CAUSE];
    struct reply reply;
    enum outcome outcome = parse_reply(data, &reply, why);
    if (outcome == MORE) {
        printf("more");
    } else if (outcome == BROKEN) {
        printf("broken");
        show("why", (struct text){why, strlen(why)});
    } else {
        printf("%s exit=%lld signal=%lld pid=%lld", reply.ok ? "ok" : "error", reply.exit, reply.signal, reply.pid);
        show("code", reply.code);
        show("message", reply.message);
        show("stderr", reply.stderr_line);
        show("body", (struct text){reply.body.at, reply.body.length + reply.files.length});
        printf(" files=%zu", reply.files.length);
    }
}

static void say(const char *data, size_t size)
{
    static char text[MAX_CONF + 1];
    struct text rest = {data + 1, size - 1};
    switch (data[0]) {
    case 'a': {
        char *base[] = {"PATH=/bin", "TMPDIR=/top", "A=0", NULL};
        struct chain_job job;
        if (!read_chain_job(rest, base, "/top", "/top/job", &job)) {
            printf("left");
            break;
        }
        printf("read signal=%d", job.kill_signal);
        show("iwd", (struct text){job.iwd, strlen(job.iwd)});
        show("out", (struct text){job.out, strlen(job.out)});
        for (size_t at = 0; job.argv[at]; at++)
            show("word", (struct text){job.argv[at], strlen(job.argv[at])});
        for (size_t at = 0; job.environment[at]; at++)
            show("variable", (struct text){job.environment[at], strlen(job.environment[at])});
        break;
    }
    case 'c':
        rest.length = rest.length < MAX_CONF ? rest.length : MAX_CONF;
        memcpy(text, rest.at, rest.length);
        printf(parse_conf(text, rest.length) ? "read" : "left");
        if (conf.keyword && conf.socket) {
            show("keyword", (struct text){conf.keyword, strlen(conf.keyword)});
            show("socket", (struct text){conf.socket, strlen(conf.socket)});
        }
        break;
    case 'j':
        printf(job_is_fine(rest) ? "fine" : "unsure");
        break;
    case 'n': {
        struct text rule, before;
        struct stat status = {.st_size = 5, .st_mtim = {1, 2}};
        bool known = parse_notes(rest, &rule, &before);
        printf(known ? "read" : "left");
        if (known) {
            show("rule", rule);
            printf(" same=%d", is_as_before(before, "in", &status));
        }
        break;
    }
    case 's':
        printf("pid");
        show("text", job_pid(rest));
        break;
    default:
        say_reply(rest);
    }
    printf("\n");
}

#ifdef FUZZER
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    hook.kind.name = "fetch_work";
    /* a copy of exactly this size, so that the sanitizer sees a read beyond it */
    char *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    if (size)
        say(copy, size);
    free(copy);
    return 0;
}
#else
int main(void)
{
    size_t size;
    hook.kind.name = "fetch_work";
    while (scanf("%zu", &size) == 1 && getchar() == '\n') {
        char *data = malloc(size ? size : 1);
        if (fread(data, 1, size, stdin) != size)
            return 2;
        say(data, size);
        free(data);
    }
    return 0;
}
#endif
