/* Pollers as in DPDK: a thread bound to each CPU that never sleeps. Those on the original CPUs stay where they are for
 * ever; others come and go with the CPUs.
 *
 *   gcc -std=gnu11 -O2 -pthread -o poller poller.c
 *
 * CPUs beyond 1023 want CPU_ALLOC(3).
 */
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct poller {
    pthread_t thread;
    int cpu;
    int exists;
    atomic_int ends;
    atomic_ulong turns;
};

static struct poller pollers[CPU_SETSIZE];
static char directory[PATH_MAX - 64];
static unsigned long long followed;
static int was_vouched;

static void *poll_queues(void *given) {
    struct poller *self = given;
    while (!atomic_load_explicit(&self->ends, memory_order_relaxed)) {
        /* Here a real one asks its receive queue, and works on what it got. */
        atomic_fetch_add_explicit(&self->turns, 1, memory_order_relaxed);
    }
    /* Here it hands its queues over to the pollers that remain. */
    return NULL;
}

static void start(int cpu) {
    struct poller *new = &pollers[cpu];
    pthread_attr_t where;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    new->cpu = cpu;
    atomic_store(&new->ends, 0);
    pthread_attr_init(&where);
    /* Bound before its first instruction. EINVAL if the CPU is gone again: the next change says so. */
    pthread_attr_setaffinity_np(&where, sizeof only, &only);
    new->exists = pthread_create(&new->thread, &where, poll_queues, new) == 0;
    pthread_attr_destroy(&where);
}

static void end(int cpu) {
    atomic_store(&pollers[cpu].ends, 1);
    pthread_join(pollers[cpu].thread, NULL);
    pollers[cpu].exists = 0;
}

/* The kernel's list syntax, "0-3,8". Returns 0, or -1 if it is none. */
static int parse(const char *text, cpu_set_t *cpus) {
    CPU_ZERO(cpus);
    while (*text) {
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

/* A CPU list of status.json, by the name of its field with what stands around it. There is no white space between the
 * tokens, and a quotation mark inside of a text has a backslash before it, so that nothing else can look like a field. */
static int list(const char *status, const char *name, char text[4096], cpu_set_t *cpus) {
    const char *found = strstr(status, name);
    *text = 0;
    if (found) sscanf(found + strlen(name), "%4095[0-9,-]", text);
    return parse(text, cpus);
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

static void look(void) {
    static char status[256 * 1024 + 1], now[3 * 4096], path[PATH_MAX];
    static char cpus_text[4096], leaving_text[4096], original_text[4096];
    cpu_set_t cpus, leaving, original, usable, house;
    snprintf(path, sizeof path, "%s/status.json", directory);
    time_t renewed = renewed_at();
    FILE *file = fopen(path, "r");
    if (!file) return;
    status[fread(status, 1, sizeof status - 1, file)] = 0;
    fclose(file);
    if (list(status, "\"cpus\":\"", cpus_text, &cpus) || list(status, "\"leaving\":\"", leaving_text, &leaving) ||
        list(status, "\"original\":\"", original_text, &original) || !CPU_COUNT(&cpus))
        return;
    const char *number = strstr(status, "\"generation\":");
    unsigned long long generation = number ? strtoull(number + strlen("\"generation\":"), NULL, 10) : 0;
    const char *seconds = strstr(status, "\"lease_seconds\":");
    int vouched = is_vouched(renewed, seconds ? seconds + strlen("\"lease_seconds\":") : "");
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
    /* This thread lives on an original CPU, which is never taken. */
    CPU_AND(&house, &original, &usable);
    if (!CPU_COUNT(&house)) house = usable;
    sched_setaffinity(0, sizeof house, &house);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (pollers[cpu].exists && !CPU_ISSET(cpu, &usable)) end(cpu);
    if (*leaving_text) {
        snprintf(path, sizeof path, "%s/ack", directory);
        file = fopen(path, "w");
        if (!file || fprintf(file, "%llu\n", generation) < 0 || fclose(file)) perror(path);
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (!pollers[cpu].exists && CPU_ISSET(cpu, &usable)) start(cpu);
}

int main(void) {
    char host[65] = "", events[4096];
    const char *given = getenv("CPUSET_SIDECAR_DIR");
    gethostname(host, sizeof host - 1);
    snprintf(directory, sizeof directory, "%s%s", given ? given : "/run/cpuset-sidecar/by-id/", given ? "" : host);
    struct pollfd news = {.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .events = POLLIN};
    for (;;) {
        /* Again each time: it costs one system call, and finds a directory that was made anew. Then look, so that nothing
         * is missed in between; and besides every ten seconds, since some file systems make no events. A directory that
         * is not there is tried each second. */
        int hears = inotify_add_watch(news.fd, directory, IN_MOVED_TO | IN_ONLYDIR) >= 0;
        look();
        poll(&news, 1, hears ? 10000 : 1000);
        while (read(news.fd, events, sizeof events) > 0) {}
    }
}
