/* Few and small files, within the request and its answer (fetchwork/sandbox/inline.py).
 *
 * If anything is unusual, the hook in Python does all of it again; the steps taken here do not disturb it.
 */
#include "hook.h"

#include <dirent.h>

enum {
    /* limits of the files within a request or an answer */
    MOST_INPUT = 2 << 20,
    MOST_OUTPUT = 512 << 10,
    MOST_FILES = 64,
    /* of the notes: their beginning has MAX_NOTES bytes at most; a line for each file of the sandbox follows */
    MOST_NOTES = 256 << 10,
};

static const char NOTES[] = ".fetchwork.files", EXECUTABLE[] = "condor_exec.exe";

/* Whether a name needs no escape in a line or in JSON, and names a file at the top of a directory. */
static bool is_plain_name(const char *name)
{
    return *name && is_plain(name) && strlen(name) <= NAME_MAX && !strpbrk(name, "/\"\\") &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Take decimal digits and `stop` off `text`; false if it begins otherwise. */
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

/* As make_file, after deleting a file of that name. */
static bool replace_file(const char *name, struct text data, mode_t mode)
{
    return (unlink(name) == 0 || errno == ENOENT) && make_file(name, data, mode);
}

static long long changed_at(const struct stat *status)
{
    return (long long)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

/* Print the files at the top of the working directory as JSON; false if a name is not plain. */
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

/* Whether the job has no problem with its inputs in place; `cmd` is the line that names its program. */
static bool filled_job_is_fine(const char *cmd)
{
    char *ad = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&ad, &size);
    if (!out)
        return false;
    struct text rest = hook.body, line;
    while (next_part(&rest, '\n', &line))
        if (!starts_with(line, "FetchWorkSandbox = ") && !(*cmd && starts_with(line, "Cmd = ")))
            fprintf(out, "%.*s\n", (int)line.length, line.at);
    fputs(cmd, out);
    bool fine = fclose(out) == 0 && job_is_fine((struct text){ad, size});
    free(ad);
    return fine;
}

/* PREPARE_JOB: fill the working directory; `cmd` takes the line for the starter. False if Python has to do it. */
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
               replace_file(name, part, strcmp(name, EXECUTABLE) == 0 ? 0755 : (mode_t)mode & 0777);
    }
    *cmd = '\0';
    if (brings)
        snprintf(cmd, cmd_size, "Cmd = \"%s/%s\"\n", home, EXECUTABLE);
    fine = fine && filled_job_is_fine(cmd) && print_catalogue(out) && fputs("}}", out) >= 0;
    fine = out && fclose(out) == 0 && fine;
    /* last: for JOB_EXIT this file proves that the inputs are complete */
    if (fine && !replace_file(NOTES, (struct text){notes, size}, 0600)) {
        unlink(NOTES);
        fine = false;
    }
    free(notes);
    return fine;
}

/* Whether the name is that of a file of the starter or of fetchwork, which is never output. */
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

/* Read PREPARE_JOB's notes: the rule for outputs, and the files at the start; false if Python has to read them. */
bool parse_notes(struct text notes, struct text *rule, struct text *before)
{
    static const char first[] = "{\"easy\":\"", second[] = ",\"before\":{";
    struct text rest = {notes.at + sizeof first - 1, notes.length - (sizeof first - 1)};
    if (!starts_with(notes, first) || !next_part(&rest, '"', rule) || rest.at == NULL || rule->length == 0)
        return false;
    const char *at = memmem(rest.at, rest.length, second, sizeof second - 1);
    if (!at || memcmp(notes.at + notes.length - 2, "}}", 2) != 0)
        return false;
    /* including the brace, so that each entry has a character before it */
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
    /* if the buffer is full, the file may be longer */
    return length >= 0 && (size_t)length < size && parse_notes((struct text){text, (size_t)length}, rule, before);
}

bool is_as_before(struct text before, const char *name, const struct stat *status)
{
    char entry[NAME_MAX + 64];
    int length = snprintf(entry, sizeof entry, "\"%s\":[%lld,%lld]", name, changed_at(status),
                          (long long)status->st_size);
    const char *at = memmem(before.at, before.length, entry, (size_t)length);
    return at && (at[-1] == '{' || at[-1] == ',');
}

/* A job's outputs in the form of a request. */
struct left {
    FILE *out;
    size_t size;
    int count;
};

/* Add a file; an `optional` one may be missing. False if it is not plain. */
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
    /* it has the size of its inode: no process writes to it any more */
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
        /* a link may point to a file */
        if (S_ISLNK(status.st_mode))
            fine = false;
        else if (S_ISREG(status.st_mode) && !is_as_before(before, entry->d_name, &status))
            fine = add_left(left, entry->d_name, false);
    }
    if (directory)
        closedir(directory);
    return fine;
}

/* Add the outputs that this rule selects (inline.py). */
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

/* JOB_EXIT: collect the outputs of a job that ended by itself; false if Python has to do it. */
static bool collect(struct text *files)
{
    static char notes[MOST_NOTES];
    struct text ad = hook.body, rule, before, line;
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

int prepare_with_files(double end)
{
    char cmd[PATH_MAX + 64];
    if (wants_container(hook.body))
        hand_over("afresh", "%s", "");
    struct reply reply = ask((struct request){.name = "prepare_job", .inline_bytes = MOST_INPUT}, end);
    /* a refusal is final; but if the files are missing or can't be written, Python has to do it */
    if (!reply.ok || (reply.exit == 0 && (!reply.files.length || !fill(reply.files, cmd, sizeof cmd))))
        hand_over("afresh", "%s", "");
    if (reply.exit == 0)
        print_answer((struct text){cmd, strlen(cmd)});
    return deliver(reply);
}

int exit_with_files(double end)
{
    struct text files;
    if (!collect(&files) || !ask((struct request){.name = "job_left", .files = files}, end).ok)
        hand_over("afresh", "%s", "");
    return 0;
}
