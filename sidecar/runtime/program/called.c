/* What this program was called with, read as runc and crun read it, and the settings that the installation left. */
#include "front.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Commands that begin no container; what a front passes on without reading further. */
static const char *const OTHERS[] = {"checkpoint", "delete", "events", "exec", "features", "kill", "list", "pause", "ps",
                                     "resume", "spec", "start", "state", "update", NULL};
static const char *const BEGINNING[] = {"create", "restore", "run", NULL};

/* Options of runc and crun before the command that have a separate value, and those of commands that begin a container. */
static const char *const FIRST[] = {"log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager", NULL};
static const char *const VALUED[] = {
    "log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager", "bundle", "b", "console-socket",
    "pidfd-socket", "pid-file", "preserve-fds", "config", "f", "image-path", "work-path", "parent-path",
    "manage-cgroups-mode", "empty-ns", "lsm-profile", "lsm-mount-context", NULL};

static int among(const char *word, size_t size, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == size && !memcmp(*words, word, size)) return 1;
    return 0;
}

/* Return what stands where a command is expected, however unknown options may be meant; "" for nothing. */
const char *first_command(char **words) {
    for (; *words; words++) {
        if (**words != '-') return *words;
        const char *name = *words + ((*words)[1] == '-' ? 2 : 1);
        if (among(name, strlen(name), FIRST) && !*++words) break;
    }
    return "";
}

int begins_none(const char *command) { return among(command, strlen(command), OTHERS); }

int may_begin(char **words) {
    for (; *words; words++)
        if (among(*words, strlen(*words), BEGINNING)) return 1;
    return 0;
}

/* Return what follows the options at the beginning, and in `found` the last value of each wanted name. */
static char **split(char **words, const char *const *wanted, char **found) {
    while (*words && **words == '-' && strcmp(*words, "-")) {
        char *name = *words++;
        if (!strcmp(name, "--")) break;
        name += strspn(name, "-");
        size_t size = strcspn(name, "=");
        char *value = name[size] ? name + size + 1 : name + size;
        if (!name[size] && among(name, size, VALUED) && *words) value = *words++;
        for (size_t i = 0; wanted[i]; i++)
            if (strlen(wanted[i]) == size && !memcmp(wanted[i], name, size)) found[i] = value;
    }
    return words;
}

static char *joined(const char *folder, const char *name) {
    struct text made = {0};
    if (*name == '/') folder = "";
    put_words(&made, "%s%s%s", folder, *folder && folder[strlen(folder) - 1] != '/' ? "/" : "", name);
    return made.at;
}

void read_called(struct called *called, char **words) {
    static const char *const before[] = {"log", "log-format", NULL}, *const after[] = {"bundle", "b", "config", "f", NULL};
    char *first[2] = {0}, *more[4] = {0};
    char **rest = split(words, before, first);
    called->words = words;
    const char *log = first[0] ? first[0] : "";
    called->log = of_words(strncmp(log, "file:", 5) ? log : log + 5);
    called->is_json = first[1] && !strcmp(first[1], "json");
    called->command = of_system(*rest ? *rest : "");
    char **names = *rest ? split(rest + 1, after, more) : rest;
    called->container = of_system(*names ? *names : "");
    char *bundle = more[0] && *more[0] ? more[0] : more[1] && *more[1] ? more[1] : ".";
    char *config = more[2] && *more[2] ? more[2] : more[3] && *more[3] ? more[3] : "config.json";
    called->bundle = resolved(bundle);
    called->config = joined(called->bundle, config);
}

/* Return the path with its links resolved as far as it exists; what is missing is kept as it is written. */
static char *resolved_after(const char *path, int links) {
    char *whole = realpath(path, NULL);
    if (whole || links > 40) return whole ? whole : needed(strdup(path));
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') size--;
    char *copy = needed(strndup(path, size)), *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
    char *above = resolved_after(!slash ? "." : slash == copy ? "/" : needed(strndup(copy, slash - copy)), links + 1);
    if (!strcmp(name, ".") || !*name) return above;
    if (!strcmp(name, "..")) {
        char *last = strrchr(above, '/');
        if (last) last[last == above] = 0;
        return above;
    }
    char target[PATH_MAX], *made = joined(above, name);
    ssize_t length = readlink(made, target, sizeof target - 1);
    if (length < 0) return made;
    target[length] = 0;
    return resolved_after(joined(above, target), links + 1);
}

char *resolved(const char *path) { return resolved_after(path, 0); }

int read_whole(const char *path, struct text *content) {
    int opened = open(path, O_RDONLY | O_CLOEXEC), failed = opened < 0;
    struct stat found;
    size_t room = 64 * 1024;
    if (!failed && !fstat(opened, &found) && found.st_size > 0 && found.st_size <= MOST_BYTES) room = found.st_size + 2;
    char *buffer = failed ? NULL : needed(malloc(room));
    size_t size = 0;
    for (ssize_t more = 1; !failed && more && size <= MOST_BYTES;) {
        if (size + 1 == room) buffer = needed(realloc(buffer, room = room * 2 > MOST_BYTES + 2 ? MOST_BYTES + 2 : room * 2));
        more = read(opened, buffer + size, room - 1 - size);
        if (more > 0) size += more;
        failed = more < 0 && errno != EINTR;
    }
    int why = errno;
    if (opened >= 0) close(opened);
    errno = why;
    if (failed) { free(buffer); return -1; }
    buffer[size] = 0;
    *content = (struct text){buffer, size, room};
    return 0;
}

char *read_small(const char *path, size_t most, size_t *size) {
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0) return NULL;
    char *made = needed(malloc(most + 1));
    ssize_t length = read(opened, made, most);
    close(opened);
    if (length < 0) { free(made); return NULL; }
    made[length] = 0;
    if (size) *size = length;
    return made;
}

/* Read one word of the shell's: bare, or in quotes, or both. Return what follows, NULL if a shell would do more. */
static const char *shell_word(const char *at, struct text *word) {
    put(word, "", 0);
    while (*at && *at != '\n' && *at != ' ' && *at != '\t') {
        size_t size = 1;
        if (*at == '\'' || *at == '"') {
            const char *end = strchr(at + 1, *at);
            if (!end) return NULL;
            size = end - at - 1;
            if (*at == '"' && strcspn(at + 1, "$`\\") < size) return NULL;
            put(word, at + 1, size);
            at = end + 1;
        } else if (strchr("$`\\;&|<>()*?[~", *at)) return NULL;
        else put(word, at++, size);
    }
    at += strspn(at, " \t");
    if (*at == '#') at += strcspn(at, "\n");
    return *at && *at != '\n' ? NULL : at + (*at == '\n');
}

static int set(struct settings *settings, const char *name, size_t size, char *value) {
    static const char *const names[] = {"real", "socket", "projections", "kind"};
    const char **places[] = {&settings->real, &settings->socket, &settings->projections, &settings->kind};
    for (size_t i = 0; i < 4; i++)
        if (strlen(names[i]) == size && !memcmp(names[i], name, size)) { *places[i] = value; return 1; }
    if (size == 8 && !memcmp(name, "patience", size)) {
        char *end;
        settings->patience = strtod(value, &end);
        return *value && !*end && settings->patience == settings->patience;
    }
    return 1;
}

/* Settings are a file that a shell may read as well. Return whether all of it is such lines as the installation writes;
 * else `wrong` says which is not, and those before it count. */
int read_settings(const char *path, const char *at, struct settings *settings, struct text *wrong) {
    for (int line = 1; *at; line++) {
        at += strspn(at, " \t");
        if (*at == '#') at += strcspn(at, "\n");
        if (*at == '\n') { at++; continue; }
        if (!*at) break;
        size_t size = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        struct text word = {0};
        const char *next = size && at[size] == '=' ? shell_word(at + size + 1, &word) : NULL;
        if (!next || !set(settings, at, size, word.at)) {
            put_words(wrong, "line %d of %s is not understood", line, path);
            return 0;
        }
        for (; at < next - 1; at++) line += *at == '\n';
        at = next;
    }
    return 1;
}

int is_strict(const struct settings *settings) { return strcmp(settings->kind, "usual") != 0; }
