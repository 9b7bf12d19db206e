/* The parts of the compiled front that decide, one input after the other: what Python's front is compared with.
 *
 * On stdin: a letter, and so many fields as it has, each as its length in ASCII, a newline, and its bytes.
 * On stdout: a letter for the outcome (= fine, ! refused, ? kept from starting), and one field: the result or the reason. */
#include "front.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void without_memory(void) { abort(); }

/* Each field is an allocation of its own, so that a byte too far is seen. */
static struct text field(void) {
    size_t size;
    if (scanf("%zu", &size) != 1 || getchar() != '\n') exit(0);
    struct text made = {.at = malloc(size + 1), .size = size, .room = size + 1};
    if (fread(made.at, 1, size, stdin) != size) exit(1);
    made.at[size] = 0;
    return made;
}

static void tell(char outcome, struct text t) {
    printf("%c%zu\n", outcome, t.size);
    fwrite(t.at ? t.at : "", 1, t.size, stdout);
    fflush(stdout);
}

static void outcome(const struct why *why, struct text t) {
    if (!why->kind) { tell('=', t); return; }
    struct text shown = {0};
    put_shown(&shown, why->said);
    tell(why->kind == KEPT ? '?' : '!', shown);
}

static void question(void) {
    struct text container = field(), document = field();
    struct why why = {0};
    struct value spec;
    struct question q = {0};
    if (!json_loaded(&why, document, &spec)) question_of(&why, of_system(container.at), spec, 0, &q);
    if (!why.kind) put_words(&q.body, "%d%d%d", surely_asks_nothing(&q), q.asks, lies_in_another(q.cgroup));
    outcome(&why, q.body);
}

static void change(void) {
    struct text document = field(), root = field(), status = field(), body = field(), mount = {0}, fresh = {0}, left_out = {0};
    struct why why = {0};
    struct value spec, answer = {0};
    struct update update = {0};
    directory_seconds = 0;
    if (!json_loaded(&why, document, &spec) && !answer_of(&why, atoi(status.at), body, &answer)
        && !update_of(&why, answer, &update) && update.is_there) {
        struct value projection = json_member(answer, "projection");
        if (projection.kind == '{')
            mount = mount_of(spec, root.at, json_text(json_member(projection, "directory")),
                             json_text(json_member(projection, "destination")), &left_out);
        changed(&why, document, spec, &update, mount, &fresh);
    }
    outcome(&why, update.is_there ? fresh : document);
    if (!why.kind) {
        struct text shown = {0};
        put_shown(&shown, left_out);
        tell('=', shown);
    }
}

static void order(void) {
    struct text content = field(), cpus = field(), made = {0};
    struct order found;
    if (order_decoded(content.at, content.size, &found)) {
        put_words(&made, "%lld %s %s %s %s|", found.epoch, found.cpus.at, found.asks.at, found.boot.at, found.machine.at);
        put_text(&made, cpus_within(cpus, &found));
    }
    tell('=', made);
}

static void owners(void) {
    struct text id = field(), content = field(), made = {0};
    struct owners found = {.id = id.at};
    struct why why = {0};
    struct value answer;
    struct update update = {0};
    if (owners_decoded(content.at, content.size, &found)) {
        put_words(&made, "%lld %s|", found.epoch, found.boot.at);
        if (found.answer.size && !json_loaded(&why, found.answer, &answer) && !update_of(&why, answer, &update)
            && update.is_there && are_online(update.cpus)) put_text(&made, update.cpus);
    }
    tell('=', made);
}

static void http(void) {
    struct text content = field(), body = {0};
    struct why why = {0};
    int status = 0, found = http_parsed(&why, content.at, content.size, &status, &body);
    struct text made = {0};
    if (found > 0) { put_words(&made, "%d ", status); put_text(&made, body); }
    outcome(&why, made);
}

static void call(void) {
    struct text all = field(), made = {0};
    char *words[64];
    size_t count = 0;
    struct called called = {0};
    for (size_t at = 0; at < all.size && count < 63; at += strlen(all.at + at) + 1) words[count++] = all.at + at;
    words[count] = NULL;
    read_called(&called, words);
    put_words(&made, "%s\n%d\n", called.log.at, called.is_json);
    put_text(&made, called.command);
    put_word(&made, "\n");
    put_text(&made, called.container);
    put_words(&made, "\n%s\n%s\n%s\n%d%d", called.bundle, called.config, first_command(words), begins_none(first_command(words)),
              may_begin(words));
    tell('=', made);
}

static void settings(void) {
    struct text content = field(), made = {0}, wrong = {0};
    struct settings s = {"r", "s", "p", "k", 10};
    int is_so = read_settings("conf", content.at, &s, &wrong);
    if (is_so) put_words(&made, "%s\n%s\n%s\n%s\n%.17g", s.real, s.socket, s.projections, s.kind, s.patience);
    tell(is_so ? '=' : '!', is_so ? made : wrong);
}

static void exec_call(void) {
    struct text all = field(), made = {0};
    char *words[64];
    size_t count = 0;
    struct exec_call call;
    for (size_t at = 0; at < all.size && count < 63; at += strlen(all.at + at) + 1) words[count++] = all.at + at;
    words[count] = NULL;
    read_exec(&call, words);
    put_words(&made, "%s\n%s", call.container ? call.container : "", call.process ? call.process : "");
    tell('=', made);
}

static void exec_process(void) {
    struct text document = field(), allowed = field(), fresh = {0};
    struct why why = {0};
    exec_placed(&why, document, allowed, &fresh);
    outcome(&why, fresh);
}

int main(void) {
    setvbuf(stdin, NULL, _IOFBF, 1 << 20);
    for (int letter; (letter = getchar()) != EOF;) switch (letter) {
        case 'q': question(); break;
        case 'c': change(); break;
        case 'o': order(); break;
        case 'n': owners(); break;
        case 'h': http(); break;
        case 'w': call(); break;
        case 'e': exec_call(); break;
        case 'p': exec_process(); break;
        case 's': settings(); break;
        default: return 2;
    }
    return 0;
}
