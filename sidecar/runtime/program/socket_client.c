/* The question over the sidecar's Unix socket: one request of HTTP/1.1, asked again while a sidecar may be starting. */
#include "front.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const double LIMIT_SECONDS = 45.0;       /* of an answer, over all tries: longer than the sidecar holds a start */
static const double UNNEEDED_SECONDS = 3.0;     /* the same for a container that asks for no CPUs */
static const double RETRY_SECONDS = 0.02;
#define CURE "start it (`cpuset-sidecar doctor` says what prevents it)"

enum { WHOLE = 1, GONE = 0, LATE = -1, FAILED = -2 };

double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

void rest(double seconds) {
    struct timespec at = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&at, NULL);
}

/* Wait until the socket is ready; at least a millisecond, as Python's front does. */
static int ready(int connection, short what, double deadline) {
    struct pollfd one = {.fd = connection, .events = what};
    for (;;) {
        double left = deadline - now();
        int found = poll(&one, 1, left < 0.001 ? 1 : (int)(left * 1e3) + 1);
        if (found >= 0) return found;
        if (errno != EINTR) return -1;
    }
}

/* The reason of a failed call: it is missing, or was killed, and another one may be starting; or it is something else. */
static int failed(void) {
    static const int gone[] = {ENOENT, ENOTDIR, ECONNREFUSED, ECONNRESET, ECONNABORTED, EPIPE, ESHUTDOWN, EAGAIN, EALREADY, EINPROGRESS};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (errno == gone[i]) return GONE;
    return FAILED;
}

/* Return 1 with the parts of a whole answer, 0 if there is more to come, -1 if it is no HTTP. */
int http_parsed(struct why *why, const char *at, size_t size, int *status, struct text *body) {
    const char *end = memmem(at, size, "\r\n\r\n", 4);
    if (!end) return 0;
    const char *stop = memmem(at, end - at, "\r\n", 2), *first = at;
    if (!stop) stop = end;
    for (const char *line = at; line <= end;) {
        const char *next = memmem(line, end - line, "\r\n", 2);
        if (!next) next = end;
        if (next - line >= 15 && !strncasecmp(line, "content-length:", 15)) {
            const char *digits = line + 15, *last = next;
            while (digits < last && isspace((unsigned char)*digits)) digits++;
            while (last > digits && isspace((unsigned char)last[-1])) last--;
            size_t count = 0, length = 0;
            for (; digits + count < last && isdigit((unsigned char)digits[count]); count++)
                if (count < 10) length = length * 10 + (digits[count] - '0');
            while (first < stop && isspace((unsigned char)*first)) first++;
            while (first < stop && !isspace((unsigned char)*first)) first++;
            while (first < stop && isspace((unsigned char)*first)) first++;
            size_t code = 0;
            while (first + code < stop && isdigit((unsigned char)first[code])) code++;
            int is_word = first + code == stop || isspace((unsigned char)first[code]);
            if (!count || count > 9 || digits + count != last) {
                refuse(why, REFUSED, "the sidecar's answer cannot be understood");
                return -1;
            }
            if (size - (end + 4 - at) < length) return 0;
            if (!code || code > 9 || !is_word) {
                refuse(why, REFUSED, "the sidecar's answer cannot be understood");
                return -1;
            }
            *status = atoi(first);
            *body = (struct text){.at = (char *)end + 4, .size = length};
            return 1;
        }
        line = next + 2;
    }
    return 0;
}

static int sent(int connection, struct text what, double deadline) {
    for (size_t done = 0; done < what.size;) {
        ssize_t more = send(connection, what.at + done, what.size - done, MSG_NOSIGNAL);
        if (more > 0) { done += more; continue; }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return failed();
        int is_ready = ready(connection, POLLOUT, deadline);
        if (is_ready <= 0) return is_ready ? FAILED : LATE;
    }
    return WHOLE;
}

static int received(struct why *why, int connection, double deadline, struct text *content, int *status, struct text *body) {
    for (;;) {
        int found = http_parsed(why, content->at, content->size, status, body);
        if (found) return found > 0 ? WHOLE : FAILED;
        static char more[65536];
        ssize_t size = recv(connection, more, sizeof more, 0);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) {
            int is_ready = ready(connection, POLLIN, deadline);
            if (is_ready <= 0) return is_ready ? FAILED : LATE;
            continue;
        }
        if (size < 0) return failed();
        if (!size || content->size > MOST_BYTES) return GONE;
        put(content, more, size);
    }
}

int answer_of(struct why *why, int status, struct text body, struct value *answer) {
    if (status == 404) return refuse(why, REFUSED, "the running sidecar does not support strict start: upgrade it");
    if (json_loaded(why, body, answer)) return why->kind;
    if (status == 200) return 0;
    struct text said = json_text(json_member(*answer, "error"));
    int kind = status == 409 || status == 503 ? KEPT : REFUSED;
    if (!said.size) return refuse(why, kind, "the sidecar answered %d", status);
    refuse(why, kind, "%s", "");
    put_text(&why->said, said);
    return kind;
}

static struct text request(struct text body) {
    struct text made = {0};
    put_words(&made, "POST /v1/starts HTTP/1.1\r\nHost: sidecar\r\nContent-Type: application/json\r\nConnection: close\r\n"
              "Content-Length: %zu\r\n\r\n", body.size);
    put_text(&made, body);
    return made;
}

/* Return the sidecar's answer in `document`. KEPT is its decision, or that there is no answer which is needed; REFUSED is
 * anything else, and at once that there is none which is not. */
int asked(struct why *why, const struct settings *settings, struct text body, int is_needed, struct text *document,
          struct value *answer) {
    const char *path = settings->socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct text sending = request(body);
    double patience = is_needed ? settings->patience : 0, limit = is_needed ? LIMIT_SECONDS : UNNEEDED_SECONDS;
    double missing_since = now(), deadline = missing_since + limit;
    int kind = is_needed ? KEPT : REFUSED;
    /* What a container has without its choice has no other runtime that asks: to choose one would lead around the front. */
    const char *cure = is_strict(settings) ? CURE ", or " ANOTHER : CURE;
    if (strlen(path) >= sizeof address.sun_path) return refuse(why, REFUSED, "not started: %s: AF_UNIX path too long; %s", path, cure);
    strcpy(address.sun_path, path);
    for (;;) {
        int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), status = 0, found = FAILED;
        if (connection >= 0) found = connect(connection, (struct sockaddr *)&address, sizeof address) ? failed() : WHOLE;
        if (found == WHOLE) {
            missing_since = 0;
            struct text got;
            document->size = 0;
            found = sent(connection, sending, deadline);
            if (found == WHOLE) found = received(why, connection, deadline, document, &status, &got);
            if (found == WHOLE) { close(connection); return answer_of(why, status, got, answer); }
            if (why->kind) { close(connection); return why->kind; }
        }
        int reason = errno;
        if (connection >= 0) close(connection);
        if (found == LATE) return refuse(why, kind, "not started: the sidecar did not answer within %.0f s", limit);
        if (found == FAILED && (reason == EACCES || reason == EPERM))
            return refuse(why, REFUSED, "not started: %s can only be opened by its owner: run this as root", path);
        if (found == FAILED) return refuse(why, REFUSED, "not started: %s: %s; %s", path, strerror(reason), cure);
        if (!missing_since) missing_since = now();
        if (now() - missing_since >= patience || now() >= deadline)
            return refuse(why, kind, "not started: nothing answers on %s, so the sidecar is not running; %s", path, cure);
        rest(RETRY_SECONDS);
    }
}
