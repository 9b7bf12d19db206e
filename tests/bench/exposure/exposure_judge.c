/* Reads again and again where the threads of all groups below PARENT may run, and prints each change:

       exposure_judge PARENT CPU [PATTERN]       nanoseconds of the monotonic clock, state, group

   The state is 0: no thread may run on the CPU; 1: one may, on others as well; 2: all may run there and nowhere else;
   3: as 1, but only threads of a runtime, which sets up the group; -1: the group has no threads, or is gone. A group is
   named by its path below PARENT, at any depth. Not read: groups whose name does not match PATTERN (an extended
   expression), and groups that were there without threads before the first pass, as engines that were killed leave
   them. The first line is `begin`, the last one, after SIGTERM, is `end`, with the number of passes and the longest
   pass in nanoseconds. Threads that have ended are not in the kernel's list (cgroup.threads, tasks), and runtimes' own
   threads are. libc only.

   What it cannot read is never taken for absent: unless a group is gone, the judge says which one it was and why, and
   ends with code 4. Groups may be nested DEEPEST deep, and are opened from the one above, so that no path is too long.

   It runs before everybody else (SCHED_FIFO) with a tenth of a millisecond between two passes: one that never paused, as
   an ordinary process, would lose its CPU for many milliseconds under load. Where that is not permitted, it does not
   pause. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEEPEST 8000 /* Levels: as many descriptors are open at once, and as many calls. */
#define LONGEST (DEEPEST * (NAME_MAX + 1))

struct group {
    char *name;
    unsigned long hash;
    int state, is_left, is_wanted;
    long pass;
};
static struct group *groups;
static char here[LONGEST + 1]; /* The name of the group that is being looked at. */
static int known, room, said, cpu, root;
static long pass;
static const char *list;
static regex_t wanted;
static const char *const runtimes[] = {"runc", "crun", "containerd", "conmon"};
static volatile sig_atomic_t is_over;

static void finish(int number) {
    (void)number;
    is_over = 1;
}

static void fail(const char *why) {
    fprintf(stderr, "exposure_judge: %s: %zu bytes of name, %.200s\n", why, strlen(here), here);
    exit(4);
}

/* Return what a call returned that opens or reads something of the present group, -1 if that is gone. */
static int unless_gone(int got) {
    if (got < 0 && errno != ENOENT && errno != ENODEV && errno != ENOTDIR)
        fail(strerror(errno));
    return got;
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

/* Return the state of the group of that name in an open one. */
static int state_of(int parent, const char *name) {
    static char text[1 << 16];
    char path[NAME_MAX + 32];
    int on = 0, threads = 0, only = 0, own = 0;
    snprintf(path, sizeof path, "%s/%s", name, list);
    int fd = unless_gone(openat(parent, path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return -1;
    ssize_t have = 0, got;
    while ((got = read(fd, text + have, sizeof text - 1 - have)) > 0)
        have += got;
    if (have == sizeof text - 1)
        fail("too many threads");
    unless_gone(got);
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

/* Return the entry of the present group. Groups are met in the same order as before, so the next one is likely it. */
static struct group *entry_of(unsigned long hash) {
    static int next;
    for (int i = 0; i < known; i++) {
        struct group *each = &groups[(next + i) % known];
        if (each->hash == hash && !strcmp(each->name, here)) {
            next = each - groups + 1;
            return each;
        }
    }
    if (known == room && !(groups = realloc(groups, (room = 2 * room + 64) * sizeof *groups)))
        fail("no memory");
    struct group *made = &groups[known++];
    *made = (struct group){.name = strdup(here), .hash = hash, .state = -1};
    if (!made->name)
        fail("no memory");
    int said_of_name = regexec(&wanted, here, 0, NULL, 0);
    if (said_of_name == REG_ESPACE)
        fail("its name is too long");
    made->is_wanted = !said_of_name;
    return made;
}

static void say(struct group *group, int state) {
    if (group->state != state && ++said)
        printf("%lld %d %s\n", now(), state, group->name);
    group->state = state;
}

/* Read all groups below one, which is closed then. Its name is the first `length` bytes of the present group's. */
static void look(int parent, size_t length, unsigned long above, int depth) {
    if (depth == DEEPEST)
        fail("nested too deep");
    if (unless_gone(parent) < 0)
        return;
    DIR *listed = fdopendir(parent);
    if (!listed)
        fail(strerror(errno));
    struct dirent *each;
    while (errno = 0, each = readdir(listed)) {
        struct stat entry;
        if (each->d_type != DT_DIR || each->d_name[0] == '.')
            continue;
        size_t longer = length + sprintf(here + length, "%s%s", length ? "/" : "", each->d_name);
        unsigned long hash = above;
        for (const char *at = here + length; *at; at++)
            hash = (hash ^ (unsigned char)*at) * 1099511628211UL;
        struct group *group = entry_of(hash);
        group->pass = pass;
        if (group->is_wanted) {
            if (!group->is_left)
                say(group, state_of(parent, each->d_name));
            group->is_left |= pass == 1 && group->state < 0;
        }
        /* A directory has a link from each one in it. */
        if (!unless_gone(fstatat(parent, each->d_name, &entry, 0)) && entry.st_nlink > 2)
            look(openat(parent, each->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), longer, hash, depth + 1);
    }
    here[length] = 0;
    unless_gone(errno ? -1 : 0);
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
    /* Each level keeps a descriptor open. */
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct sched_param first = {.sched_priority = 1};
    int is_first = !sched_setscheduler(0, SCHED_FIFO, &first);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    long long last = now(), longest = 0;
    printf("%lld 0 begin\n", last);
    fflush(stdout);
    while (!is_over) {
        pass++;
        look(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, 14695981039346656037UL, 0);
        int kept = 0;
        for (int i = 0; i < known; i++)
            if (groups[i].pass == pass)
                groups[kept++] = groups[i];
            else {
                say(&groups[i], -1);
                free(groups[i].name);
            }
        known = kept;
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
