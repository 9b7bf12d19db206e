/* A workload whose busiest thread never rests: it spins on one CPU, and prints each second what it lost there: the
   share of the time in gaps of more than 20 microseconds between two readings of the clock, and the longest gap in
   microseconds. With a second number, another thread spins on that CPU. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *busy(void *cpu) {
    run_on(*(int *)cpu);
    for (volatile unsigned long turns = 0;; turns++);
    return NULL;
}

int main(int count, char **words) {
    int other = count > 2 ? atoi(words[2]) : -1;
    pthread_t second;
    if (other >= 0) pthread_create(&second, NULL, busy, &other);
    run_on(atoi(words[1]));
    for (;;) {
        double began = now(), last = began, lost = 0, longest = 0;
        while (last - began < 1e6) {
            double here = now(), gap = here - last;
            last = here;
            if (gap <= 20) continue;
            lost += gap;
            if (gap > longest) longest = gap;
        }
        printf("lost %.5f longest %.0f\n", lost / (last - began), longest);
        fflush(stdout);
    }
}
