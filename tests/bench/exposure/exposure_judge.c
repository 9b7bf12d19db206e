/* Reads again and again where the threads of all groups below PARENT may run, and prints each change:

       exposure_judge PARENT CPU [PATTERN]       nanoseconds of the monotonic clock, state, group

   The state is 0: no thread may run on the CPU; 1: one may, on others as well; 2: all may run there and nowhere else;
   3: as 1, but only threads of a runtime, which sets up the group; -1: the group has no threads, or is gone. A group is named by its path below PARENT, at any depth. Not read: groups
   whose name does not match PATTERN (an extended expression), and groups that were there without threads before the
   first pass, as engines that were killed leave them. The first line is `begin`, the
   last one, after SIGTERM, is `end`, with the number of passes and the longest pass in nanoseconds. Threads that have
   ended are not in the kernel's list (cgroup.threads, tasks), and runtimes' own threads are. libc only.

   It runs before everybody else (SCHED_FIFO) with a tenth of a millisecond between two passes: one that never paused, as
   an ordinary process, would lose its CPU for many milliseconds under load. Where that is not permitted, it does not
   pause. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST 8192
#define NAME 512

static struct group {
    char name[NAME];
    int state, is_left;
    long pass;
} groups[MOST];
static int known, said, cpu, root;
static long pass;
static const char *list;
static regex_t wanted;
static const char *const runtimes[] = {"runc", "crun", "containerd", "conmon"};
static volatile sig_atomic_t is_over;

static void finish(int number) {
    (void)number;
    is_over = 1;
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int may_run(pid_t id, cpu_set_t *allowed) {
    return !sched_getaffinity(id, sizeof *allowed, allowed) && CPU_ISSET(cpu, allowed);
}

/* Return whether a thread that may run there is the container's own. It is if its program is, and if it still may: a
   program that has just been loaded may run elsewhere than the runtime did. A user's crun runs a sealed copy of itself
   that no path leads to: its program is "/". */
static int is_own(pid_t id) {
    char path[32], program[256] = "";
    cpu_set_t allowed;
    snprintf(path, sizeof path, "/proc/%d/exe", id);
    ssize_t length = readlink(path, program, sizeof program - 1);
    if (length < 0)
        return 0;
    program[length] = 0;
    if (!strcmp(program, "/"))
        return 0;
    for (int i = 0; i < (int)(sizeof runtimes / sizeof *runtimes); i++)
        if (strstr(program, runtimes[i]))
            return 0;
    return may_run(id, &allowed);
}

static int state_of(const char *name) {
    static char text[1 << 16];
    char path[NAME + 32];
    int on = 0, threads = 0, only = 0, own = 0;
    snprintf(path, sizeof path, "%s/%s", name, list);
    int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t have = 0, got;
    while ((got = read(fd, text + have, sizeof text - 1 - have)) > 0)
        have += got;
    close(fd);
    if (got < 0)
        return -1;
    text[have] = 0;
    for (char *at = text, *next; *at; at = next) {
        cpu_set_t allowed;
        pid_t id = strtol(at, &next, 10);
        if (next == at)
            break;
        while (*next == '\n')
            next++;
        if (id <= 0 || sched_getaffinity(id, sizeof allowed, &allowed))
            continue;
        threads++;
        on += !!CPU_ISSET(cpu, &allowed);
        own += CPU_ISSET(cpu, &allowed) && is_own(id);
        only += CPU_ISSET(cpu, &allowed) && CPU_COUNT(&allowed) == 1;
    }
    return !threads ? -1 : !on ? 0 : only == threads ? 2 : own ? 1 : 3;
}

static struct group *entry_of(const char *name) {
    for (int i = 0; i < known; i++)
        if (!strcmp(groups[i].name, name))
            return &groups[i];
    if (known == MOST)
        exit(3);
    struct group *made = &groups[known++];
    snprintf(made->name, sizeof made->name, "%s", name);
    made->state = -1;
    made->is_left = 0;
    return made;
}

static void say(struct group *group, int state) {
    if (group->state != state && ++said)
        printf("%lld %d %s\n", now(), state, group->name);
    group->state = state;
}

/* Read all groups below one, which is closed then; `above` is its name. */
static void look(int parent, const char *above) {
    DIR *listed = parent < 0 ? NULL : fdopendir(parent);
    struct dirent *each;
    while (listed && (each = readdir(listed))) {
        char name[NAME];
        struct stat entry;
        if (each->d_type != DT_DIR || each->d_name[0] == '.' ||
            snprintf(name, sizeof name, "%s%s%s", above, *above ? "/" : "", each->d_name) >= NAME)
            continue;
        if (!regexec(&wanted, name, 0, NULL, 0)) {
            struct group *group = entry_of(name);
            group->pass = pass;
            if (!group->is_left)
                say(group, state_of(name));
            group->is_left |= pass == 1 && group->state < 0;
        }
        /* A directory has a link from each one in it. */
        if (!fstatat(parent, each->d_name, &entry, 0) && entry.st_nlink > 2)
            look(openat(parent, each->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), name);
    }
    if (listed)
        closedir(listed);
}

int main(int count, char **words) {
    if (count < 3 || regcomp(&wanted, count > 3 ? words[3] : "", REG_EXTENDED | REG_NOSUB))
        return 2;
    cpu = atoi(words[2]);
    root = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    list = !faccessat(root, "cgroup.threads", R_OK, 0) ? "cgroup.threads" : "tasks";
    if (root < 0)
        return 2;
    signal(SIGTERM, finish);
    struct sched_param first = {.sched_priority = 1};
    int is_first = !sched_setscheduler(0, SCHED_FIFO, &first);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    long long last = now(), longest = 0;
    printf("%lld 0 begin\n", last);
    fflush(stdout);
    while (!is_over) {
        pass++;
        look(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "");
        for (int i = 0; i < known; i++)
            if (groups[i].pass != pass) {
                say(&groups[i], -1);
                groups[i--] = groups[--known];
            }
        if (said)
            fflush(stdout);
        said = 0;
        long long ended = now();
        if (ended - last > longest)
            longest = ended - last;
        last = ended;
        if (is_first)
            usleep(100);
    }
    printf("%lld %ld end %lld\n", now(), pass, longest);
    return fflush(stdout) ? 1 : 0;
}
