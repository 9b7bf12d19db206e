/* Prints where it may run as its first act, and when that changes: the number of CPUs and microseconds, and at first the
   CPUs as well; then waits to be killed. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(void) {
    cpu_set_t first, later;
    sched_getaffinity(0, sizeof first, &first);
    double began = now(CLOCK_MONOTONIC);
    printf("first %d %.0f", CPU_COUNT(&first), now(CLOCK_REALTIME));
    for (int cpu = 0, before = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &first))
            printf("%c%d", before++ ? ',' : ' ', cpu);
    printf("\n");
    fflush(stdout);
    while (now(CLOCK_MONOTONIC) - began < 2e6) {
        sched_getaffinity(0, sizeof later, &later);
        if (!CPU_EQUAL(&first, &later)) {
            printf("changed %d %.0f\n", CPU_COUNT(&later), now(CLOCK_MONOTONIC) - began);
            fflush(stdout);
            break;
        }
        usleep(200);
    }
    pause();
    return 0;
}
