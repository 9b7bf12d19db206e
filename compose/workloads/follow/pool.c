/* A pool of threads, as many as there are CPUs, that follows them: epoll(7) and inotify(7), POSIX threads.
 *
 *   gcc -std=gnu11 -O2 -pthread -o pool pool.c
 *
 * CPUs beyond 1023 want CPU_ALLOC(3).
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024

static char directory[PATH_MAX - 64];
static pthread_t workers[MOST];
static int running;
static unsigned long long followed;
static int was_vouched;
/* Workers with this number and above end after the piece of work that they are at. */
static atomic_int wanted;
static atomic_long done;

static void *work(void *number) {
    while ((int)(long)number < atomic_load(&wanted)) {
        for (volatile int turn = 0; turn < 100000; turn++) {}
        atomic_fetch_add(&done, 1);
        usleep(1000); /* where a server would wait for its next request */
    }
    return NULL;
}

/* The kernel's list syntax, "0-3,8", up to its closing quotation mark. Returns 0, or -1 if it is none. */
static int parse(const char *text, cpu_set_t *cpus) {
    CPU_ZERO(cpus);
    while (*text && *text != '"') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text) return -1;
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text) return -1;
        }
        if (last < first || last >= CPU_SETSIZE) return -1;
        for (; first <= last; first++) CPU_SET(first, cpus);
        text = *end == ',' ? end + 1 : end;
    }
    return 0;
}

/* What follows a field's name in status.json; empty if it is not there. There is no white space between the tokens, and a
 * quotation mark inside of a text has a backslash before it, so that nothing else can look like a field. */
static const char *field(const char *status, const char *name) {
    const char *found = strstr(status, name);
    return found ? found + strlen(name) : "";
}

/* Whether the daemon vouches for what is read: it renews the time of the file `lease`, which counts for some seconds. `at`
 * is that time, and was looked at before the status was read: so what was read is at least as new. If not, keep what you
 * have; others may be there by now. */
static int is_vouched(time_t at, const char *seconds) {
    double age = difftime(time(NULL), at);
    return age >= -1 && age <= strtod(seconds, NULL);
}

static time_t renewed_at(void) {
    char path[PATH_MAX];
    struct stat lease;
    snprintf(path, sizeof path, "%s/lease", directory);
    return lstat(path, &lease) == 0 && S_ISREG(lease.st_mode) ? lease.st_mtime : 0;
}

/* As many workers as `count`, all threads on `usable`. Returns when no thread runs elsewhere. */
static void resize(int count, const cpu_set_t *usable) {
    atomic_store(&wanted, count);
    for (; running > count; running--) pthread_join(workers[running - 1], NULL);
    for (int number = 0; number < running; number++) pthread_setaffinity_np(workers[number], sizeof *usable, usable);
    sched_setaffinity(0, sizeof *usable, usable); /* this thread; those that it makes from now on inherit it */
    for (; running < count; running++)
        if (pthread_create(&workers[running], NULL, work, (void *)(long)running)) break;
}

static void acknowledge(unsigned long long generation) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/ack", directory);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%llu\n", generation) < 0 || fclose(file)) perror(path);
}

static void look(void) {
    static char status[256 * 1024 + 1];
    char path[PATH_MAX], cpus_text[4096] = "", leaving_text[4096] = "", now[3 * 4096];
    cpu_set_t cpus, leaving, usable;
    snprintf(path, sizeof path, "%s/status.json", directory);
    time_t renewed = renewed_at();
    FILE *file = fopen(path, "r");
    if (!file) return;
    status[fread(status, 1, sizeof status - 1, file)] = 0;
    fclose(file);
    sscanf(field(status, "\"cpus\":\""), "%4095[0-9,-]", cpus_text);
    sscanf(field(status, "\"leaving\":\""), "%4095[0-9,-]", leaving_text);
    /* No CPUs: nothing can be said just now. Keep what you have. */
    if (!*cpus_text || parse(cpus_text, &cpus) || parse(leaving_text, &leaving)) return;
    unsigned long long generation = strtoull(field(status, "\"generation\":"), NULL, 10);
    int vouched = is_vouched(renewed, field(status, "\"lease_seconds\":"));
    if (generation == followed && vouched == was_vouched) return;
    followed = generation;
    was_vouched = vouched;
    snprintf(now, sizeof now, "%s%s%s%s", cpus_text, *leaving_text ? ", leaving " : "", leaving_text,
             vouched ? "" : ", unvouched");
    printf("CPUs %s\n", now);
    fflush(stdout);

    CPU_AND(&usable, &cpus, &leaving);
    CPU_XOR(&usable, &cpus, &usable);
    if (!CPU_COUNT(&usable)) return;
    resize(CPU_COUNT(&usable) < MOST ? CPU_COUNT(&usable) : MOST, &usable);
    if (*leaving_text) acknowledge(generation);
}

int main(void) {
    char host[65] = "", events[4096];
    const char *given = getenv("CPUSET_SIDECAR_DIR");
    gethostname(host, sizeof host - 1);
    snprintf(directory, sizeof directory, "%s%s", given ? given : "/run/cpuset-sidecar/by-id/", given ? "" : host);
    int news = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = news};
    if (news < 0 || loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, news, &event)) return perror("inotify or epoll"), 1;
    for (;;) {
        /* Again each time: it costs one system call, and finds a directory that was made anew. Then look, so that nothing
         * is missed in between; and besides every ten seconds, since some file systems make no events. A directory that
         * is not there is tried each second. */
        int hears = inotify_add_watch(news, directory, IN_MOVED_TO | IN_ONLYDIR) >= 0;
        look();
        epoll_wait(loop, &event, 1, hears ? 10000 : 1000);
        while (read(news, events, sizeof events) > 0) {}
    }
}
