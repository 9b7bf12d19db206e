/* JSON by its places in the document. yajl tells tokens apart; what a token is, and where, is all that is taken from it.
 *
 * A document is checked once and whole (`json_loaded`). Values in it are then looked at one level at a time, each time by
 * a pass over the value above: nothing is built that a large document makes large.
 * Where yajl reads more than JSON (\v and \f as blank space) it is held to JSON, and to what Python reads. */
#include "front.h"
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

struct walk {
    yajl_handle yajl;
    const char *text;
    size_t end;                     /* of the last token */
    int depth, kind, is_infinite;
    struct value key;
    const char *begin;              /* of the value one level down that is being read */
    seer *see;
    void *with;
    const char *wrong;
};

/* Return where the token begins that yajl has just read: behind blank space, a comma or a colon. */
static const char *token(struct walk *w) {
    size_t at = w->end;
    w->end = yajl_get_bytes_consumed(w->yajl);
    while (at < w->end && strchr(" \t\n\r,:", w->text[at]) && w->text[at]) at++;
    if (w->text[at] == '\v' || w->text[at] == '\f') w->wrong = "something else is between its values";
    return w->text + at;
}

static int item(struct walk *w, int kind) {
    const char *at = token(w);
    if (w->depth == 1 && w->see && !w->wrong)
        w->see(w->with, w->key, (struct value){kind, at, (size_t)(w->text + w->end - at)});
    return !w->wrong;
}

static int begin(struct walk *w, int kind) {
    const char *at = token(w);
    if (w->depth++ == 1) { w->begin = at; w->kind = kind; }
    if (w->depth > MOST_DEPTH) w->wrong = "it is nested too deeply";
    return !w->wrong;
}

static int finish(struct walk *w) {
    token(w);
    if (--w->depth == 1 && w->see && !w->wrong)
        w->see(w->with, w->key, (struct value){w->kind, w->begin, (size_t)(w->text + w->end - w->begin)});
    return !w->wrong;
}

static int on_null(void *w) { return item(w, 'w'); }
static int on_boolean(void *w, int value) { (void)value; return item(w, 'w'); }
static int on_string(void *w, const unsigned char *at, size_t size) { (void)at; (void)size; return item(w, '"'); }
static int on_start_map(void *w) { return begin(w, '{'); }
static int on_start_array(void *w) { return begin(w, '['); }
static int on_end(void *w) { return finish(w); }

static int is_fraction(const char *at, size_t size) { return memchr(at, '.', size) || memchr(at, 'e', size) || memchr(at, 'E', size); }

static int on_number(void *with, const char *at, size_t size) {
    struct walk *w = with;
    if (!is_fraction(at, size)) {
        if (size - (*at == '-') > MOST_DIGITS) w->wrong = "an integer has too many digits";
    } else if (size > 300 || memchr(at, 'e', size) || memchr(at, 'E', size)) {
        char *copy = needed(strndup(at, size));
        double value = strtod(copy, NULL);
        free(copy);
        w->is_infinite |= value - value != 0;
    }
    return item(w, '0');
}

static int on_key(void *with, const unsigned char *text, size_t size) {
    struct walk *w = with;
    const char *at = token(w);
    (void)text; (void)size;
    if (w->depth == 1) w->key = (struct value){'"', at, (size_t)(w->text + w->end - at)};
    return !w->wrong;
}

static const yajl_callbacks CALLBACKS = {
    .yajl_null = on_null, .yajl_boolean = on_boolean, .yajl_number = on_number, .yajl_string = on_string,
    .yajl_start_map = on_start_map, .yajl_map_key = on_key, .yajl_end_map = on_end,
    .yajl_start_array = on_start_array, .yajl_end_array = on_end,
};

static void *allocated(void *with, size_t size) { (void)with; return needed(malloc(size ? size : 1)); }
static void *reallocated(void *with, void *old, size_t size) { (void)with; return needed(realloc(old, size ? size : 1)); }
static void freed(void *with, void *old) { (void)with; free(old); }

/* Return NULL if all of it is JSON, else why it is not. */
static const char *walked(struct walk *w, const char *at, size_t size) {
    yajl_alloc_funcs memory = {.malloc = allocated, .realloc = reallocated, .free = freed};
    w->text = at;
    w->yajl = needed(yajl_alloc(&CALLBACKS, &memory, w));
    yajl_config(w->yajl, yajl_dont_validate_strings, 1);
    yajl_status found = yajl_parse(w->yajl, (const unsigned char *)at, size);
    if (found == yajl_status_ok) found = yajl_complete_parse(w->yajl);
    if (found != yajl_status_ok && !w->wrong) {
        unsigned char *said = yajl_get_error(w->yajl, 0, NULL, 0);
        static char kept[200];
        strncpy(kept, (const char *)said, sizeof kept - 1);
        kept[strcspn(kept, "\n")] = 0;
        yajl_free_error(w->yajl, said);
        w->wrong = kept;
    }
    yajl_free(w->yajl);
    return w->wrong;
}

int json_loaded(struct why *why, struct text document, struct value *root) {
    if (document.size > MOST_BYTES) return refuse(why, REFUSED, "there are more than %d bytes of JSON", MOST_BYTES);
    const char *at = document.at, *end = at + document.size;
    while (at < end && *at && strchr(" \t\n\r", *at)) at++;
    while (at < end && end[-1] && strchr(" \t\n\r", end[-1])) end--;
    if (at == end) return refuse(why, REFUSED, "this is not JSON: it is empty");
    struct walk walk = {0};
    const char *wrong = walked(&walk, at, end - at);
    if (wrong) return refuse(why, REFUSED, "this is not JSON: %s", wrong);
    if (*at != '{') return refuse(why, REFUSED, "this is not a JSON object");
    *root = (struct value){'{', at, (size_t)(end - at)};
    return 0;
}

void json_each(struct value above, seer *see, void *with) {
    struct walk walk = {.see = see, .with = with};
    if (above.kind == '{' || above.kind == '[') walked(&walk, above.at, above.size);
}

int json_has_infinite(struct value root) {
    struct walk walk = {0};
    walked(&walk, root.at, root.size);
    return walk.is_infinite;
}

struct picking { struct member *members; size_t count; };

static void pick(void *with, struct value key, struct value item) {
    struct picking *p = with;
    for (size_t i = 0; i < p->count; i++)
        if (json_is(key, p->members[i].name)) p->members[i].found = item;
}

/* Of a name that stands there twice, the last one counts. */
void json_pick(struct value object, struct member *members, size_t count) {
    struct picking picking = {members, count};
    if (object.kind == '{') json_each(object, pick, &picking);
}

struct value json_member(struct value object, const char *name) {
    struct member one = {.name = name};
    json_pick(object, &one, 1);
    return one.found;
}

static uint32_t four(const char *at) {
    char digits[5] = {at[0], at[1], at[2], at[3], 0};
    return (uint32_t)strtoul(digits, NULL, 16);
}

struct text json_text(struct value string) {
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    struct text made = {0};
    put(&made, "", 0);
    if (string.kind != '"') return made;
    const char *at = string.at + 1, *end = string.at + string.size - 1;
    uint32_t code;
    while (at < end) {
        if (*at != '\\') {
            size_t plain = 0;
            while (at + plain < end && at[plain] != '\\' && (unsigned char)at[plain] < 0x80) plain++;
            if (plain) { put(&made, at, plain); at += plain; continue; }
            at += code_at(at, end - at, &code);
        } else if (at[1] != 'u') {
            const char *found = strchr(from, at[1]);
            code = found ? (unsigned char)to[found - from] : (unsigned char)at[1];
            at += 2;
        } else {
            code = four(at + 2);
            at += 6;
            if (code >= 0xD800 && code <= 0xDBFF && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
                uint32_t low = four(at + 2);
                if (low >= 0xDC00 && low <= 0xDFFF) { code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00); at += 6; }
            }
        }
        put_code(&made, code);
    }
    return made;
}

int json_is(struct value string, const char *word) {
    if (string.kind != '"') return 0;
    if (!memchr(string.at, '\\', string.size))
        return string.size == strlen(word) + 2 && !memcmp(string.at + 1, word, string.size - 2);
    struct text decoded = json_text(string);
    int same = is(decoded, word);
    drop(&decoded);
    return same;
}

int json_is_whole(struct value item) { return item.kind == '0' && !is_fraction(item.at, item.size); }
