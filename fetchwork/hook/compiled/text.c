/* Text from untrusted bytes. */
#include "hook.h"

bool equals(struct text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

bool starts_with(struct text text, const char *word)
{
    return text.length >= strlen(word) && memcmp(text.at, word, strlen(word)) == 0;
}

bool is_plain(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

/* Take the part before the next `stop` off `rest`, with `stop`; false if nothing is left. */
bool next_part(struct text *rest, char stop, struct text *part)
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

/* Take the next UTF-8 character off `text`; -1, and nothing is taken, if the bytes are not UTF-8. */
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

bool is_utf8(struct text text)
{
    while (text.length)
        if (next_character(&text) < 0)
            return false;
    return true;
}

/* Whether a character moves the cursor, breaks the line or is invisible; Python's isprintable() knows more. */
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

/* Copy `text` to `out` as one line, odd characters as spaces; `out` has room for `limit` characters of 4 bytes. */
char *one_line(struct text text, size_t limit, char *out)
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
