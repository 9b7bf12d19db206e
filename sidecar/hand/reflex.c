/* The part of the watcher that must not wait for the interpreter: it writes newborn groups, and groups that others wrote.
 *
 * One inotify queue, one thread in `reflex_run`. All other events, and what was done about these, are left for Python
 * (`reflex_fetch`), which has the same rules in full: whatever is not understood here is only passed on. A write that is
 * undone here is passed on as IN_MODIFY, with the line that was found as its name; a write of the expected line is not.
 * The cookie of a birth is the watch of its cpuset, that of an undone write how many microseconds it stood here: from when
 * the kernel woke this thread, or from the last look at the group if that was later, until the group has the expected
 * line, or is looked at again. What the thread waited for a processor counts (`waited`).
 * One mutex for everything, with priority inheritance: the thread may be real-time, its callers are not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ID = 64, KINDS = 8, LINE = 4096, MOST_KEPT = 4 << 20, MOST_ANSWERS = 1000 };

static const char CPUS[] = "cpuset.cpus";

struct parent { int watch, fd, kind, place; };
struct group { int watch, parent, answers, is_lost; int64_t second, looked; char *name, *line; };
struct reflex {
    pthread_mutex_t lock;
    int events, bell, is_full, delays;
    regex_t names[KINDS];
    int has_names[KINDS];
    void *parents, *groups;             /* trees by watch */
    char *others, *blob, **own;         /* own: sorted, each an id, its place and its line */
    size_t owners, kept;
    char *out;
};

/* Microseconds of the monotonic clock. */
static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Microseconds for which the thread `reflex_run` was ready, and had no processor; 0 where the kernel does not say it. */
static int64_t waited(struct reflex *r) {
    char text[80];
    ssize_t length = pread(r->delays, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) / 1000 : 0;
}

static int by_watch(const void *a, const void *b) { return (*(int *)a > *(int *)b) - (*(int *)a < *(int *)b); }
static int by_id(const void *id, const void *entry) { return memcmp(id, *(char **)entry, ID); }
static void *found(void **tree, int watch) { void *at = tfind(&watch, tree, by_watch); return at ? *(void **)at : NULL; }

static void drop_group(struct reflex *r, int watch) {
    struct group *g = found(&r->groups, watch);
    if (!g) return;
    tdelete(g, &r->groups, by_watch);
    free(g->name); free(g->line); free(g);
}

static void set_group(struct reflex *r, int watch, int parent, const char *name, const char *line) {
    struct group *old = found(&r->groups, watch);
    /* What is known of its writes stays. */
    if (old && line && old->parent == parent && !strcmp(old->name, name) && !strcmp(old->line, line)) return;
    drop_group(r, watch);
    struct group *g = line && *line ? calloc(1, sizeof *g) : NULL;
    if (!g) return;
    *g = (struct group){.watch = watch, .parent = parent, .name = strdup(name), .line = strdup(line)};
    if (!g->name || !g->line || !tsearch(g, &r->groups, by_watch)) { free(g->name); free(g->line); free(g); }
}

static void pass_on(struct reflex *r, const struct inotify_event *event, uint32_t cookie, const char *name) {
    size_t length = (strlen(name) + 4) & ~3UL, size = sizeof *event + length;
    if (r->kept + size > MOST_KEPT) { r->is_full = 1; return; }
    struct inotify_event copy = {.wd = event->wd, .mask = event->mask, .cookie = cookie, .len = length};
    char *at = r->out + r->kept;
    memcpy(at, &copy, sizeof copy);
    strncpy(at + sizeof copy, name, length);
    r->kept += size;
}

static int opened(int parent, const char *name) { return openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

static void put(int group, const char *line) {
    char text[LINE + 2];
    int length = snprintf(text, sizeof text, "%s\n", line), fd;
    if (length >= (int)sizeof text || (fd = openat(group, CPUS, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)) < 0) return;
    if (write(fd, text, length) < 0) { /* Python reads the file, and tries again. */ }
    close(fd);
}

/* A name stands for a container where that is; elsewhere for nobody. */
static const char *answer(struct reflex *r, const char *name, int place) {
    for (const char *at = name; *at; at++) {
        size_t digits = strspn(at, "0123456789abcdef");
        if (digits == ID) {
            char **own = r->owners ? bsearch(at, r->own, r->owners, sizeof *r->own, by_id) : NULL;
            char *line = NULL;
            long its = own ? strtol(*own + ID, &line, 10) : 0;
            return own && (its < 0 || its == place) ? line + 1 : r->others;
        }
        if (!at[digits]) break;
        at += digits;
    }
    return r->others;
}

/* Read the first line of a group's file. Return whether that was possible. */
static int get(int group, const char *file, char text[LINE]) {
    int fd = openat(group, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, LINE - 1);
    if (fd >= 0) close(fd);
    text[length > 0 ? length : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return length >= 0 && length < LINE - 1;
}

/* Return the watch that was made, and in `theirs` what the group had; 0 without one. */
static int born(struct reflex *r, struct parent *p, const char *name, char theirs[LINE]) {
    if (!r->has_names[p->kind] || regexec(&r->names[p->kind], name, 0, NULL, 0)) return 0;
    const char *line = answer(r, name, p->place);
    int group = line && *line ? opened(p->fd, name) : -1;
    if (group < 0) return 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d/cpuset.cpus", group);
    int watch = inotify_add_watch(r->events, path, IN_MODIFY);
    if (watch >= 0) set_group(r, watch, p->fd, name, line);
    get(group, CPUS, theirs);
    put(group, line);
    close(group);
    return watch > 0 ? watch : 0;
}

/* Return whether the event is dealt with, and nothing is left to do. It is no older than `since`, or than the last look. */
static int modified(struct reflex *r, const struct inotify_event *event, int64_t since) {
    struct group *g = found(&r->groups, event->wd);
    int group = g ? opened(g->parent, g->name) : -1, is_done = 0;
    if (group < 0) return 0;
    char text[LINE], left[LINE];
    if (get(group, CPUS, text)) {
        int64_t now = now_us(), from = g->is_lost || g->looked > since ? g->looked : since;
        if (now / 1000000 != g->second) { g->second = now / 1000000; g->answers = 0; }
        is_done = !strcmp(text, g->line);
        g->looked = now;
        g->is_lost = !is_done;
        if (!is_done && g->answers++ < MOST_ANSWERS) {
            put(group, g->line);
            g->is_lost = get(group, CPUS, left) && strcmp(left, g->line);
            g->looked = now_us();
            pass_on(r, event, g->looked - from, text);
            is_done = 1;
        }
    }
    close(group);
    return is_done;
}

static int take(struct reflex *r, int64_t since) {
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    pthread_mutex_lock(&r->lock);
    size_t before = r->kept;
    ssize_t length = read(r->events, buffer, sizeof buffer);
    for (char *at = buffer; at < buffer + length;) {
        struct inotify_event *event = (struct inotify_event *)at;
        at += sizeof *event + event->len;
        struct parent *p = event->mask & IN_CREATE && event->mask & IN_ISDIR ? found(&r->parents, event->wd) : NULL;
        char theirs[LINE] = "";
        int made = p ? born(r, p, event->name, theirs) : 0;
        if (event->mask & IN_IGNORED || (event->mask & IN_MODIFY && modified(r, event, since))) continue;
        pass_on(r, event, made, event->len ? event->name : "");
        if (made && *theirs) pass_on(r, &(struct inotify_event){.wd = made, .mask = IN_MODIFY}, 0, theirs);
    }
    int has_news = r->kept > before || r->is_full;
    pthread_mutex_unlock(&r->lock);
    uint64_t one = 1;
    if (has_news && write(r->bell, &one, sizeof one) < 0) { /* It rings already. */ }
    return length > 0;
}

int reflex_take(struct reflex *r) { return take(r, now_us()); }

void reflex_run(struct reflex *r, int stop) {
    struct pollfd waits[] = {{.fd = r->events, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
    r->delays = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    while (!waits[1].revents) {
        int64_t before = waited(r);
        if (poll(waits, 2, -1) > 0 && waits[0].revents) take(r, now_us() - (waited(r) - before));
    }
    if (r->delays >= 0) close(r->delays);
}

long reflex_fetch(struct reflex *r, char *into, size_t room) {
    size_t size = 0;
    pthread_mutex_lock(&r->lock);
    while (size < r->kept) {
        size_t next = sizeof(struct inotify_event) + ((struct inotify_event *)(r->out + size))->len;
        if (size + next > room) break;
        size += next;
    }
    memcpy(into, r->out, size);
    memmove(r->out, r->out + size, r->kept -= size);
    if (!size && r->is_full) {
        struct inotify_event lost = {.wd = -1, .mask = IN_Q_OVERFLOW};
        memcpy(into, &lost, size = sizeof lost);
        r->is_full = 0;
    }
    pthread_mutex_unlock(&r->lock);
    return size;
}

void reflex_parent(struct reflex *r, int watch, int fd, int kind, int place) {
    pthread_mutex_lock(&r->lock);
    struct parent *p = found(&r->parents, watch);
    if (p) tdelete(p, &r->parents, by_watch), free(p);
    if (fd >= 0 && (p = malloc(sizeof *p))) {
        *p = (struct parent){watch, fd, kind, place};
        if (!tsearch(p, &r->parents, by_watch)) free(p);
    }
    pthread_mutex_unlock(&r->lock);
}

void reflex_expect(struct reflex *r, int watch, int parent, const char *name, const char *line) {
    pthread_mutex_lock(&r->lock);
    set_group(r, watch, parent, name, line);
    pthread_mutex_unlock(&r->lock);
}

/* `own`: for each id in order the id, its place (negative: any), a space, the line, and a null. */
int reflex_answers(struct reflex *r, const char *others, const char *own, size_t length, size_t owners) {
    char *text = strdup(others), *blob = malloc(length + 1), **entries = calloc(owners + 1, sizeof *entries);
    if (!text || !blob || !entries) { free(text); free(blob); free(entries); return -1; }
    memcpy(blob, own, length);
    for (size_t i = 0, at = 0; i < owners; i++, at += strlen(blob + at) + 1) entries[i] = blob + at;
    pthread_mutex_lock(&r->lock);
    char *old[] = {r->others, r->blob, (char *)r->own};
    r->others = text; r->blob = blob; r->own = entries; r->owners = owners;
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < 3; i++) free(old[i]);
    return 0;
}

/* Write a line into a group, which is kept at it from then on. Return 0 if it has exactly these CPUs then, the error if
 * nothing could be written, -1 if that is left to the caller because groups are inside it, -2 if it may have others. */
static int placed(struct reflex *r, int watch, int parent, const char *name, const char *line, const char *effective) {
    int group = opened(parent, name), is_v1 = !strcmp(effective, "cpuset.effective_cpus"), fd;
    if (group < 0) return errno;
    struct stat found;
    if (is_v1 && (fstat(group, &found) || found.st_nlink > 2)) { close(group); return -1; }
    /* Before the write, whose event comes at once. */
    reflex_expect(r, watch, parent, name, line);
    char text[LINE + 2];
    int length = snprintf(text, sizeof text, "%s\n", line), error = 0;
    if (length >= (int)sizeof text) error = EINVAL;
    else if ((fd = openat(group, CPUS, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)) < 0) error = errno;
    else {
        if (write(fd, text, length) < 0) error = errno;
        close(fd);
    }
    if (!error && (!get(group, effective, text) || strcmp(text, line))) error = -2;
    close(group);
    return error;
}

/* `entries`: for each of so many groups its watch, its parent's descriptor, and two texts that end with a null: its name
 * and its line. What became of each is in `done`, as `placed` returns it. */
void reflex_place(struct reflex *r, const char *entries, size_t count, const char *effective, int *done) {
    for (size_t i = 0; i < count; i++) {
        int of[2];
        memcpy(of, entries, sizeof of);
        const char *name = entries + sizeof of, *line = name + strlen(name) + 1;
        entries = line + strlen(line) + 1;
        done[i] = placed(r, of[0], of[1], name, line, effective);
    }
}

/* Change it, and INTERFACE in reflex_queue.py, with any change of a call or of what it means. */
int reflex_interface(void) { return 4; }

int reflex_names(struct reflex *r, int kind, const char *pattern) {
    return r->has_names[kind] = !regcomp(&r->names[kind], pattern, REG_EXTENDED | REG_NOSUB);
}

struct reflex *reflex_new(int events, int bell) {
    struct reflex *r = calloc(1, sizeof *r);
    if (!r || !(r->out = malloc(MOST_KEPT))) { free(r); return NULL; }
    r->events = events;
    r->bell = bell;
    pthread_mutexattr_t inherits;
    pthread_mutexattr_init(&inherits);
    pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&r->lock, &inherits);
    return r;
}

static void free_group(void *node) { struct group *g = node; free(g->name); free(g->line); free(g); }

void reflex_free(struct reflex *r) {
    for (int i = 0; i < KINDS; i++) if (r->has_names[i]) regfree(&r->names[i]);
    tdestroy(r->parents, free); tdestroy(r->groups, free_group);
    free(r->others); free(r->blob); free(r->own); free(r->out);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
