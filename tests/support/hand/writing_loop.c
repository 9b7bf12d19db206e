/* writing_loop PAUSE FILE LINE...: writes the lines into a file in turn, with so many microseconds in between, until it
 * is ended. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    int pause = count > 3 ? atoi(words[1]) : 0, file = count > 3 ? open(words[2], O_WRONLY) : -1;
    if (file < 0) return 2;
    for (int at = 3;; at = at + 1 < count ? at + 1 : 3) {
        if (pwrite(file, words[at], strlen(words[at]), 0) < 0) return 1;
        if (pause) usleep(pause);
    }
}
