/* The interfaces between the parts of the compiled hook: a part uses the parts above it, and handover.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION "fetchwork/1"

enum {
    MAX_HEAD = 8 * 1024,
    MAX_BODY = 16 * 1024 * 1024,
    MAX_CONF = 65536,
    MAX_CAUSE = MAX_HEAD,
};

/* -- text.c */

struct text {
    const char *at;
    size_t length;
};

bool equals(struct text text, const char *word);
bool starts_with(struct text text, const char *word);
bool is_plain(const char *text);
bool next_part(struct text *rest, char stop, struct text *part);
bool is_utf8(struct text text);
char *one_line(struct text text, size_t limit, char *out);

/* -- handover.c */

/* a hook, and its time limit in seconds */
struct kind {
    const char *name;
    double total_s;
};

extern struct hook {
    struct kind kind;
    int argc;
    char **argv;
    double start, end;
    /* the directory that the hook was called from, and the one that it is installed in */
    char called_from[PATH_MAX], home[PATH_MAX];
    /* stdin, complete if `read`: the hook in Python gets it from here */
    struct text body;
    bool read;
    /* without an answer of the agent the runner goes on here; a hook becomes the hook in Python */
    jmp_buf *without_answer;
} hook;

bool is_hook(const char *name);
double now(void);
void set_timer(double seconds);
bool wait_for(int fd, short events, double end);
bool write_all(int fd, struct text data);
bool put_back_stdin(void);
void complain(const char *cause);
_Noreturn void give_up(const char *cause);
_Noreturn void hand_over(const char *state, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -- conf.c */

/* settings of hook.conf; NULL: not set */
extern struct conf {
    const char *keyword, *socket, *deadline_s, *own_deadline_s;
} conf;

bool parse_conf(char *text, size_t length);
void read_conf(void);
void set_deadline(void);

/* -- jobcheck.c */

bool job_is_fine(struct text ad);
bool wants_container(struct text ad);

/* -- wire.c */

enum outcome { MORE, WHOLE, BROKEN };

struct reply {
    bool ok;
    /* `files` are the end of the body */
    struct text code, message, stderr_line, body, files;
    long long exit, signal, pid;
};

enum outcome parse_reply(struct text data, struct reply *reply, char *why);

/* -- link.c */

/* A request to the agent: its body is stdin, followed by files. */
struct request {
    const char *name;
    struct text files;
    /* the most bytes of files that the answer may have */
    int inline_bytes;
    /* the job's problem, in one line */
    const char *check;
};

struct reply ask(struct request request, double end);

/* -- answer.c */

struct text next_ad(struct text *rest);
struct text job_pid(struct text body);
bool make_file(const char *name, struct text data, mode_t mode);
void print_answer(struct text body);
int deliver(struct reply reply);

/* -- inline.c */

int prepare_with_files(double end);
int exit_with_files(double end);
bool parse_notes(struct text notes, struct text *rule, struct text *before);
bool is_as_before(struct text before, const char *name, const struct stat *status);

/* -- siblings.c */

void await_updates(void);

/* -- chainjob.c */

/* A job of a chain; `argv` and `environment` end with NULL. */
struct chain_job {
    char *cmd;
    const char *run_id, *token, *arguments, *iwd, *in, *out, *err;
    char **argv, **environment;
    int kill_signal;
    bool has_policy;
};

bool read_chain_job(struct text ad, char **base, const char *top, const char *scratch, struct chain_job *job);
pid_t start_chain_job(const struct chain_job *job, const sigset_t *mask, char *check, size_t size);

/* -- runner.c */

int run_chain(void);
