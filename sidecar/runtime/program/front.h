/* `cpuset-runc` as one program: what `front.py`, `bundle.py`, `standing.py` and `owner_start.py` do, with the same words.
 *
 *   text.c              bytes that grow; characters of UTF-8 and of JSON strings
 *   json.c              JSON by its places: yajl says what is a token, and nothing else is kept
 *   called.c            the arguments of the call, and the settings of the installation
 *   standing.c          the standing order
 *   owner_start.c       what is answered to an owner while nothing answers
 *   bundle.c            the question, and the changes of a config.json
 *   exec_place.c        where a process begins that joins a container
 *   projection_mount.c  the mount of a container's projection
 *   socket_client.c     the sidecar over its socket
 *   front.c             what is done in which order
 *
 * It runs once and for milliseconds: what it allocates goes with it, except in loops. A bundle cannot have it allocate more
 * than some times the size of its own file, of which no more than MOST_BYTES are read. */
#ifndef FRONT_H
#define FRONT_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MOST_BYTES = 32 * 1024 * 1024,  /* of a config.json, and of an answer */
    MOST_DEPTH = 900,               /* of JSON: Python's own recursion ends below 1000 */
    MOST_DIGITS = 4300,             /* of an integer: Python converts no more */
    MOST_LABELS = 64,               /* that are sent: ours first, and then Swarm's */
    MOST_PAIRS = 10000,             /* labels, or annotations of ours, that are looked at */
    MOST_NAME = 250,                /* characters of a name that is sent, and of a label with its key */
    MOST_CPUS = 65536,
    MOST_ORDER = 64 * 1024,         /* bytes of a standing order, and of an attribute of the kernel's */
    MOST_OWNERS = 1024 * 1024       /* bytes of the answers to owners */
};

/* Text is UTF-8; a surrogate that JSON or an argument brings is kept as if UTF-8 had it. There is a null after `size`. */
struct text { char *at; size_t size, room; };

_Noreturn void without_memory(void);
void *needed(void *allocated);
void put(struct text *t, const void *bytes, size_t size);
void put_word(struct text *t, const char *word);
void put_words(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_text(struct text *t, struct text more);
void put_code(struct text *t, uint32_t code);
size_t code_at(const char *at, size_t size, uint32_t *code);    /* bytes that are no UTF-8 are U+FFFD, as Python replaces them */
void put_json(struct text *t, struct text words);               /* in quotes and ASCII, as Python writes it */
void put_shown(struct text *t, struct text words);              /* for stderr */
struct text of_system(const char *words);
struct text of_words(const char *words);
int has_null(struct text t);
int starts(struct text t, const char *with);
int is(struct text t, const char *word);
size_t characters(struct text t);
struct text cut(struct text t, size_t most);                    /* at most so many characters */
void drop(struct text *t);

/* Why a container does not start; KEPT is by a decision. Functions that can refuse return 0, or `why->kind`. */
enum { REFUSED = 1, KEPT };
struct why { int kind; struct text said; };
#define ANOTHER "choose another runtime for this container"
int refuse(struct why *why, int kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A value where it stands in a document. `kind` is { [ " 0 (a number) or w (true, false, null); 0 is no value. */
struct value { int kind; const char *at; size_t size; };
struct member { const char *name; struct value found; };
typedef void seer(void *with, struct value key, struct value item);

int json_loaded(struct why *why, struct text document, struct value *root);
void json_each(struct value above, seer *see, void *with);
void json_pick(struct value object, struct member *members, size_t count);
struct value json_member(struct value object, const char *name);
struct text json_text(struct value string);                     /* empty if it is none */
int json_is(struct value string, const char *word);
int json_is_whole(struct value item);                           /* an integer */
int json_has_infinite(struct value root);

struct settings { const char *real, *socket, *projections, *kind; double patience; };
struct called {
    char **words;
    struct text log, command, container;
    char *bundle, *config;
    int is_json;
};

int is_strict(const struct settings *settings);
void read_called(struct called *called, char **words);
const char *first_command(char **words);
int begins_none(const char *command);
int may_begin(char **words);
int read_settings(const char *path, const char *content, struct settings *settings, struct text *wrong);
char *resolved(const char *path);                               /* as realpath of Python: what is missing is kept */
char *read_small(const char *path, size_t most, size_t *size);  /* NULL with errno */
int read_whole(const char *path, struct text *content);         /* -1 with errno; one byte more than MOST_BYTES at most */

struct cpus { unsigned char has[MOST_CPUS / 8]; };
struct order { long long epoch; struct text cpus, asks, boot, machine; };

int cpus_of(const char *at, size_t size, struct cpus *found);   /* 0 if it is no list of CPUs */
struct text cpus_listed(const struct cpus *cpus);
struct text cpus_within(struct text cpus, const struct order *order);
struct text cpus_within_above(struct text cpus, struct text cgroup);    /* those that the group above has; "" for none */
int order_decoded(const char *content, size_t size, struct order *order);
int order_taken(const char *folder, struct order *order);       /* the lock's descriptor, or -1 */
int order_kept(const char *folder, struct order *order);        /* whether there is one */
void order_noted(const char *folder, struct text container, const struct order *order);
typedef int reader(const char *content, size_t size, void *found);
int file_locked(const char *folder, const char *name, size_t most, reader *read_it, void *found_in_it);   /* as order_taken */
const char *unsealed(const char *content, size_t size, const char *head);   /* its lines; NULL if torn, or something else */
int are_online(struct text cpus);                               /* all of them, and one at least */
struct text boot_of(void);
struct text attribute(const char *path);                        /* of the kernel's, without blank space around it */
struct stat;
int is_private(const struct stat *found);                       /* only this user and root can write it */
uint32_t crc32_of(const char *at, size_t size);

/* The question: its JSON, and what decides who is asked. */
struct question {
    struct text body, id, cgroup, cpus, mems;
    int has_labels, is_ours, asks;
};
struct update { int is_there; struct text cpus; struct value mems, quota; };

int question_of(struct why *why, struct text container, struct value spec, int is_strict, struct question *question);
int lies_in_another(struct text cgroup);
int surely_asks_nothing(const struct question *question);
int is_id(const char *at, size_t size);
int update_of(struct why *why, struct value answer, struct update *update);
int changed(struct why *why, struct text content, struct value spec, const struct update *update, struct text mount,
            struct text *fresh);
void append_last(struct text content, struct value object, struct text member, struct text *fresh);
int replace_file(struct why *why, const char *path, struct text content);

/* The answers to owners, of which one is picked: that of this id. */
struct owners { const char *id; long long epoch; struct text boot, answer; };
int owners_decoded(const char *content, size_t size, struct owners *owners);
int owner_taken(const char *folder, struct text container, struct value *answer, struct order *order);   /* as order_taken */

/* A call of `exec`: the container, and the file that describes the process; NULL for what it does not name. */
struct exec_call { const char *container, *process; };
void read_exec(struct exec_call *call, char **words);
int exec_placed(struct why *why, struct text content, struct text allowed, struct text *fresh);
void place_exec(const char *folder, char **words);

struct text mount_of(struct value spec, const char *root, struct text directory, struct text destination, struct text *left_out);
struct text place_of(struct text destination);
extern double directory_seconds;

int asked(struct why *why, const struct settings *settings, struct text body, int is_needed, struct text *document,
          struct value *answer);
int answer_of(struct why *why, int status, struct text body, struct value *answer);
int http_parsed(struct why *why, const char *at, size_t size, int *status, struct text *body);   /* 1: whole; 0: more */
double now(void);
void rest(double seconds);
#endif
