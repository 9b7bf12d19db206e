/* `cpuset-runc`: before a container begins, the sidecar decides on which CPUs it starts. Then the real runtime does it.
 *
 * 1. A call that begins no container becomes the real runtime at once; `exec` first keeps off some CPUs (exec_place.c).
 * 2. The bundle is changed by the sidecar's answer, or by the standing order; what is not understood is a refusal under
 *    the runtime that containers choose (strict), and goes on byte for byte before one that they did not (usual).
 * 3. The real runtime takes the place of this program, with the same arguments.
 *
 * It has no options of its own. What it goes by is written into it (`installed`) when it is installed. */
#include "front.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Change it, and INTERFACE in front_program.py, with any change of what the installation writes. */
#define INTERFACE "cpuset-front 1\n"

/* With which reasons begin: not where the container starts all the same. */
#define NOT_STARTED "not started: "

enum { ROOM = 8192, HIGH = 200, MOST_SETTINGS = 64 * 1024 };

/* The path of the settings, and the real runtime and the kind that count without them, each with a null at its end. */
char installed[ROOM] = INTERFACE;

static struct settings settings;
static void (*before)(int);     /* what the engine had done about SIGPIPE */
static struct called called;

/* Messages for people. */

static void log_line(const char *level, struct text message) {
    char at[32];
    time_t seconds = time(NULL);
    struct tm parts;
    struct text line = {0};
    const char *path = called.log.at, *colon = path ? strchr(path, ':') : NULL;
    if (!path || !*path || (colon && (size_t)(colon - path) < strcspn(path, "/"))) return;   /* None, or no file. */
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
    put_words(&line, called.is_json ? "{\"level\": \"%s\", \"msg\": " : "time=\"%2$s\" level=%1$s msg=", level, at);
    put_json(&line, message);
    if (called.is_json) put_words(&line, ", \"time\": \"%s\"}", at);
    put_word(&line, "\n");
    int opened = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (opened < 0) return;
    if (write(opened, line.at, line.size) < 0) { /* The engine reads stderr as well. */ }
    close(opened);
}

static void tell_the_host(struct text message) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    struct text line = {0};
    int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    put_word(&line, "<28>cpuset-runc: ");
    put_text(&line, message);
    if (sender >= 0 && !connect(sender, (struct sockaddr *)&address, sizeof address))
        if (send(sender, line.at, line.size, MSG_NOSIGNAL) < 0) { /* There may be nobody who reads it. */ }
    if (sender >= 0) close(sender);
}

static int refused(struct text reason) {
    struct text line = {0}, shown = {0};
    put_word(&line, "cpuset-sidecar: ");
    put_text(&line, reason);
    log_line("error", line);
    put_word(&line, "\n");
    put_shown(&shown, line);
    if (write(STDERR_FILENO, shown.at, shown.size) < 0) { /* It is in the log. */ }
    return 1;
}

/* Warn of what a container lacks in the log that the engine named, and in the host's: Docker throws its own away. */
static void warn(const char *of, struct text reason) {
    struct text line = {0}, host = {0};
    put_words(&line, "cpuset-sidecar: %s: ", of);
    put_text(&line, reason);
    log_line("warning", line);
    put_text(&host, cut(called.container, 12));
    put_words(&host, ": %s: ", of);
    put_text(&host, reason);
    tell_the_host(host);
}

/* The real runtime. */

static volatile sig_atomic_t child;

static void tell_child(int number) {
    if (child > 0) kill(child, number);
}

/* Stay as the parent until the runtime has ended: it is not known to hand the lock on to nobody. */
static int stay(char **words) {
    static const int passed[] = {SIGHUP, SIGINT, SIGTERM};
    struct sigaction telling = {.sa_handler = tell_child};
    sigset_t some, mask;
    posix_spawnattr_t attributes;
    pid_t made;
    int status;
    sigemptyset(&some);
    for (int i = 0; i < 3; i++) sigaddset(&some, passed[i]);
    sigprocmask(SIG_BLOCK, &some, &mask);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int failed = posix_spawnp(&made, words[0], NULL, &attributes, words, environ);
    if (failed) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
        return failed;
    }
    child = made;
    for (int i = 0; i < 3; i++) sigaction(passed[i], &telling, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    while (waitpid(made, &status, 0) < 0)
        if (errno != EINTR) _exit(1);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status) & 0xFF);
}

/* Return the error that kept it from being run. */
static int become(int lock) {
    size_t count = 0;
    while (called.words && called.words[count]) count++;
    char **words = needed(calloc(count + 2, sizeof *words));
    words[0] = (char *)settings.real;
    for (size_t i = 0; i < count; i++) words[i + 1] = called.words[i];
    const char *slash = strrchr(settings.real, '/');
    signal(SIGPIPE, before == SIG_ERR ? SIG_DFL : before);
    if (lock >= 0 && strcmp(slash ? slash + 1 : settings.real, "runc")) return stay(words);
    /* Out of the way of the descriptors that the engine hands on. */
    if (lock >= 0 && fcntl(lock, F_DUPFD, HIGH) < 0) return errno;
    execvp(settings.real, words);
    return errno;
}

void without_memory(void) {
    static const char said[] = "cpuset-sidecar: cpuset-runc failed: there is no memory left\n";
    if (settings.kind && !is_strict(&settings)) {
        static char *words[1000];
        words[0] = (char *)settings.real;
        for (int i = 0; i < 998 && called.words[i]; i++) words[i + 1] = called.words[i];
        execvp(settings.real, words);
    }
    if (write(STDERR_FILENO, said, sizeof said - 1) < 0) { /* Its exit code is left. */ }
    _exit(1);
}

/* What is done in which order. */

/* Read an answer into an update and a mount. Return 0, or why there is none. */
static int by(struct why *why, struct value answer, int is_mounted, struct value spec, struct update *update, struct text *mount) {
    struct text left_out = {0};
    if (update_of(why, answer, update)) return why->kind;
    struct value projection = json_member(answer, "projection");
    if (!update->is_there || projection.kind != '{' || !*settings.projections || !is_mounted) return 0;
    struct member parts[] = {{.name = "directory"}, {.name = "destination"}};
    json_pick(projection, parts, 2);
    *mount = mount_of(spec, settings.projections, json_text(parts[0].found), json_text(parts[1].found), &left_out);
    if (left_out.size) warn("its projection is not mounted", left_out);
    return 0;
}

/* Return the folder of the standing order, or what lies in it. */
static char *starts_folder(const char *inner) {
    struct text folder = {0};
    const char *slash = strrchr(settings.socket, '/');
    put(&folder, settings.socket, slash ? (size_t)(slash - settings.socket) : 0);
    put_words(&folder, "%sstarts%s", slash ? "/" : "", inner);
    return folder.at;
}

/* The same by the sidecar's answer; by the one that was written down for this container if there is none at once, and as
 * long as that stands. */
static int by_answer(struct why *why, const struct question *question, struct value spec, struct update *update,
                     struct text *mount, int *lock) {
    struct text document = {0}, fresh = {0};
    struct value answer;
    struct order order;
    const char *folder = starts_folder("");
    int is_needed = is_strict(&settings) || question->asks, kept = -1;
    if ((kept = owner_taken(folder, question->id, &answer, &order)) >= 0) {
        close(kept);    /* Whoever answers may wait until nobody holds it. */
        if (!asked(why, &settings, question->body, 0, &document, &answer)) by(why, answer, is_needed, spec, update, mount);
        if (why->kind != REFUSED) return why->kind;
        if ((*lock = owner_taken(folder, question->id, &answer, &order)) >= 0) {
            *why = (struct why){0};
            order_noted(folder, question->id, &order);
            return by(why, answer, is_needed, spec, update, mount);
        }
        *why = (struct why){0};     /* A sidecar has begun meanwhile. */
    }
    if (asked(why, &settings, question->body, is_needed, &fresh, &answer)) return why->kind;
    return by(why, answer, is_needed, spec, update, mount);
}

static void by_order(const char *folder, const struct order *order, const struct question *question, struct update *update) {
    struct text cpus = question->cpus.size ? cpus_within(question->cpus, order) : order->cpus;
    int can_have = !lies_in_another(question->cgroup) || (cpus = cpus_within_above(cpus, question->cgroup)).size;
    *update = (struct update){.is_there = can_have, .cpus = cpus};
    if (!can_have) return;
    order_noted(folder, question->id, order);
}

/* The same for a container that did not choose this runtime: by the standing order if it surely asks for nothing, or if
 * there is no answer and it asks for no CPUs. */
static int by_answer_or_order(struct why *why, const struct question *question, struct value spec, struct update *update,
                              struct text *mount, int *lock) {
    const char *folder = starts_folder("");
    struct order order;
    /* The group above may have other CPUs than the order, so a sidecar is asked first. */
    int is_sure = surely_asks_nothing(question) && !lies_in_another(question->cgroup);
    if (is_sure && (*lock = order_taken(folder, &order)) >= 0) {
        if (is(order.asks, "labelled")) {
            by_order(folder, &order, question, update);
            return 0;
        }
        close(*lock);   /* Whoever answers may wait until nobody holds it. */
        *lock = -1;
    }
    if (by_answer(why, question, spec, update, mount, lock) != REFUSED) return why->kind;
    *mount = (struct text){0};
    if ((*lock = order_taken(folder, &order)) < 0 && !order_kept(folder, &order)) return why->kind;
    by_order(folder, &order, question, update);
    return why->kind = 0;
}

static int change_bundle(struct why *why, int *lock) {
    struct text content, mount = {0}, fresh = {0}, word = {0};
    struct value spec;
    struct question question;
    struct update update = {0};
    if (!is(called.command, "create") && !is(called.command, "restore") && !is(called.command, "run")) {
        put_json(&word, called.command);
        return refuse(why, REFUSED, "not started: the call of the runtime is not understood (%s stands where a command is expected)%s",
                      word.at, is_strict(&settings) ? "; " ANOTHER : "");
    }
    char *config = resolved(called.config);
    if (read_whole(config, &content)) return refuse(why, REFUSED, "the bundle cannot be read: %s: %s", config, strerror(errno));
    if (json_loaded(why, content, &spec)) return why->kind;
    if (question_of(why, called.container, spec, is_strict(&settings), &question)) return why->kind;
    if (is_strict(&settings)) by_answer(why, &question, spec, &update, &mount, lock);
    else by_answer_or_order(why, &question, spec, &update, &mount, lock);
    if (why->kind || !update.is_there) return why->kind;
    return changed(why, content, spec, &update, mount, &fresh) || replace_file(why, config, fresh) ? why->kind : 0;
}

static int begin_container(const char *lacking) {
    struct why why = {0};
    int lock = -1;
    if (lacking) refuse(&why, REFUSED, "%s: run `cpuset-sidecar install-runtime` again", lacking);
    else change_bundle(&why, &lock);
    if (why.kind == KEPT || (why.kind && is_strict(&settings))) return refused(why.said);
    if (why.kind) {
        if (lock >= 0) close(lock);
        lock = -1;
        size_t passed = starts(why.said, NOT_STARTED) ? sizeof NOT_STARTED - 1 : 0;
        warn("it starts as the engine has it", (struct text){.at = why.said.at + passed, .size = why.said.size - passed});
    }
    refuse(&why, REFUSED, "%s cannot be run: %s", settings.real, strerror(become(lock)));
    return refused(why.said);
}

int main(int count, char **arguments) {
    const char *path = installed + sizeof INTERFACE - 1, *real = path + strlen(path) + 1, *kind = real + strlen(real) + 1;
    char **words = count ? arguments + 1 : arguments;
    struct text lacking = {0};
    if (!*path) {
        printf("%s", count == 2 && !strcmp(words[0], "--interface") ? INTERFACE : "`cpuset-sidecar install-runtime` installs this\n");
        return count == 2 ? 0 : 2;
    }
    settings = (struct settings){real, "/var/lib/cpuset-sidecar/api.sock", "/run/cpuset-sidecar", kind, 10};
    called.words = words;
    before = signal(SIGPIPE, SIG_IGN);
    char *content = read_small(path, MOST_SETTINGS, NULL);
    if (!content) put_words(&lacking, "its settings are missing (%s: %s)", path, strerror(errno));
    else read_settings(path, content, &settings, &lacking);
    const char *command = first_command(words);
    if (!begins_none(command) && strcmp(settings.kind, "passing") && may_begin(words)) {
        read_called(&called, words);
        return begin_container(lacking.size ? lacking.at : NULL);
    }
    if (strcmp(settings.kind, "passing")) place_exec(starts_folder("/exec"), words);
    int reason = become(-1);
    fprintf(stderr, "cpuset-runc: %s cannot be run: %s\n", settings.real, strerror(reason));
    return reason == ENOENT ? 127 : 126;
}
