/* Where a process begins that joins a container which runs, as exec and health checks do; the same as `exec_place.py`.
 *
 * 1. The daemon keeps a file for each container in which such processes keep off some of its CPUs: these, as a list.
 * 2. This program keeps off them, and the runtime after it: the kernel cuts that to the container's CPUs as it joins, and
 *    takes it for all of them if none is left (since Linux 6.2).
 * 3. Later runtimes forget what they inherit and go by the process's own `execCPUAffinity`, so it is written there. As
 *    `initial`: a `final` that the container has no more fails the call.
 * Whatever is not understood leaves the call as it came. */
#include "front.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_LIST = 64 * 1024, BITS = 8 * sizeof(long) };

static const char KEY[] = "execCPUAffinity";

void read_exec(struct exec_call *call, char **words) {
    const char *command = first_command(words);
    *call = (struct exec_call){0};
    if (strcmp(command, "exec")) return;
    while (*words != command) words++;
    for (words++; *words; words++) {
        if (is_id(*words, strlen(*words))) { call->container = *words; return; }
        const char *name = *words + strspn(*words, "-");
        size_t size = strcspn(name, "=");
        if (name == *words || !((size == 7 && !memcmp(name, "process", 7)) || (size == 1 && *name == 'p'))) continue;
        if (name[size]) call->process = name + size + 1;
        else if (words[1]) call->process = *++words;
    }
}

/* Return whether a file says which CPUs are kept off. */
static int avoided(const char *folder, const char *container, struct cpus *found) {
    struct text path = {0};
    struct stat above, file;
    static char content[MOST_LIST];
    put_words(&path, "%s/%s", folder, container);
    int opened = open(path.at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (opened < 0) return 0;
    int is_so = !stat(folder, &above) && is_private(&above) && !fstat(opened, &file) && S_ISREG(file.st_mode) && is_private(&file);
    ssize_t size = is_so ? read(opened, content, sizeof content) : 0;
    close(opened);
    return size > 0 && cpus_of(content, size, found) && cpus_listed(found).size;
}

static void keep_off(const struct cpus *allowed) {
    static unsigned long mask[MOST_CPUS / BITS];
    for (size_t cpu = 0; cpu < MOST_CPUS; cpu++)
        if (allowed->has[cpu / 8] >> cpu % 8 & 1) mask[cpu / BITS] |= 1UL << cpu % BITS;
    if (syscall(SYS_sched_setaffinity, 0, sizeof mask, mask)) { /* It may run nowhere else itself. */ }
}

int exec_placed(struct why *why, struct text content, struct text allowed, struct text *fresh) {
    struct value process;
    struct text member = {0};
    if (json_loaded(why, content, &process)) return why->kind;
    if (json_member(process, KEY).kind) return refuse(why, REFUSED, "the process says itself where it begins");
    if (json_has_infinite(process)) return refuse(why, REFUSED, "this cannot be written as JSON: a number is too large");
    put_words(&member, "\"%s\": {\"initial\": \"%s\"}", KEY, allowed.at);
    append_last(content, process, member, fresh);
    return 0;
}

void place_exec(const char *folder, char **words) {
    static struct cpus off, allowed;
    struct exec_call call;
    struct why why = {0};
    struct text content, fresh = {0}, listed, possible;
    read_exec(&call, words);
    if (!call.container || !avoided(folder, call.container, &off)) return;
    possible = attribute("/sys/devices/system/cpu/possible");
    if (!cpus_of(possible.at, possible.size, &allowed)) return;
    for (size_t i = 0; i < sizeof allowed.has; i++) allowed.has[i] &= ~off.has[i];
    listed = cpus_listed(&allowed);
    if (!listed.size) return;
    if (call.process) {
        char *path = resolved(call.process);
        if (read_whole(path, &content) || exec_placed(&why, content, listed, &fresh)) return;
        if (replace_file(&why, path, fresh)) return;
    }
    keep_off(&allowed);
}
