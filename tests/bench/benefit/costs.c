/* What sharing a CPU costs: `costs wake`, `costs work`, `costs walk`, `costs steps`. Numbers on one line each.

   wake CPU TIMES           microseconds from a timer's end to the first instruction, one line a time
   work CPU KIB TIMES       nanoseconds of CPU time for a fixed walk through so much memory, one line a time
   walk CPU KIB             walks through memory for ever: a neighbour with a working set of its own
   steps CPUS THREADS TIMES MICROSECONDS
                            THREADS threads on the first CPUS CPUs share out MICROSECONDS of work a step, and wait for
                            each other after it: nanoseconds a step, one line a time */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 64 /* bytes of a cache line */

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void pin(int first, int count)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	for (int cpu = first; cpu < first + count; cpu++)
		CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}

static void wake(int times)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (int i = 0; i < times; i++) {
		/* A few milliseconds, and never in step with the kernel's tick. */
		t.tv_nsec += 3000000 + (long)(i * 7919 % 4000) * 1000;
		if (t.tv_nsec >= 1000000000) {
			t.tv_nsec -= 1000000000;
			t.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		double late = now(CLOCK_MONOTONIC) - (t.tv_sec * 1e9 + t.tv_nsec);
		printf("%.1f\n", late / 1e3);
		/* A request's worth of work, so that it is no mere sleeper to the scheduler. */
		double until = now(CLOCK_THREAD_CPUTIME_ID) + 1e6;
		while (now(CLOCK_THREAD_CPUTIME_ID) < until)
			;
		clock_gettime(CLOCK_MONOTONIC, &t);
	}
}

/* A chain through all lines in an order that no prefetcher guesses. */
static void **chain(size_t kib)
{
	size_t count = kib * 1024 / LINE;
	char *memory = aligned_alloc(4096, count * LINE);
	size_t *order = malloc(count * sizeof *order);
	srand(1);
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count - 1; i > 0; i--) {
		size_t j = rand() % (i + 1), kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
	for (size_t i = 0; i < count; i++)
		*(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % count] * LINE;
	void **start = (void **)(memory + order[0] * LINE);
	free(order);
	return start;
}

static void **walked(void **at, long hops)
{
	while (hops--)
		at = *(void **volatile *)at;
	return at;
}

static void work(size_t kib, int times)
{
	void **at = walked(chain(kib), 4 * (long)kib * 1024 / LINE);
	for (int i = 0; i < times; i++) {
		double began = now(CLOCK_THREAD_CPUTIME_ID);
		/* About as many hops as a request of some milliseconds makes. */
		at = walked(at, 1000000);
		printf("%.0f\n", now(CLOCK_THREAD_CPUTIME_ID) - began);
	}
}

static pthread_barrier_t barrier;
static double share; /* nanoseconds of CPU time of each thread, each step */
static int steps;

static void *stepper(void *argument)
{
	for (int i = 0; i < steps; i++) {
		double began = now(CLOCK_MONOTONIC), until = now(CLOCK_THREAD_CPUTIME_ID) + share;
		while (now(CLOCK_THREAD_CPUTIME_ID) < until)
			;
		pthread_barrier_wait(&barrier);
		if (argument)
			printf("%.0f\n", now(CLOCK_MONOTONIC) - began);
	}
	return NULL;
}

static void stepping(int threads, int times, double microseconds)
{
	pthread_t others[256];
	steps = times;
	share = microseconds * 1e3 / threads;
	pthread_barrier_init(&barrier, NULL, threads);
	for (int i = 1; i < threads; i++)
		pthread_create(&others[i], NULL, stepper, NULL);
	stepper("first");
	for (int i = 1; i < threads; i++)
		pthread_join(others[i], NULL);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "wake")) {
		pin(atoi(argv[2]), 1);
		wake(atoi(argv[3]));
	} else if (argc == 5 && !strcmp(argv[1], "work")) {
		pin(atoi(argv[2]), 1);
		work(atoi(argv[3]), atoi(argv[4]));
	} else if (argc == 4 && !strcmp(argv[1], "walk")) {
		pin(atoi(argv[2]), 1);
		void **at = chain(atoi(argv[3]));
		for (;;)
			at = walked(at, 1000000);
	} else if (argc == 6 && !strcmp(argv[1], "steps")) {
		pin(0, atoi(argv[2]));
		stepping(atoi(argv[3]), atoi(argv[4]), atof(argv[5]));
	} else {
		fputs("see the head of costs.c\n", stderr);
		return 2;
	}
	return 0;
}
