/* The parties of tests.bench.isolation:

     played steps
         Prints how many steps of work take 100 microseconds here at best.
     played victim WARM SECONDS AFTER STEPS
         Runs pieces of STEPS steps without a pause: WARM seconds before it counts, SECONDS that count, and AFTER seconds
         more. Prints how many pieces it ran in these SECONDS, then the p50, p99, p99.9 and the longest of their times in
         microseconds.
     played neighbour THREADS
         Computes without end.
     played host AGENTS SPINNERS
         Agents wake after 1 to 20 ms, and compute for 0.2 to 4 ms; spinners compute without end. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE 100.0 /* microseconds */
#define TRIES 20000

static volatile uint64_t sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void work(long steps)
{
	uint64_t x = sink | 1;
	for (long i = 0; i < steps; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	sink = x;
}

static void compute(double seconds)
{
	double end = now() + seconds;
	while (now() < end)
		work(1000);
}

static int by_size(const void *one, const void *other)
{
	float a = *(const float *)one, b = *(const float *)other;
	return (a > b) - (a < b);
}

static int steps(void)
{
	double best = 1;
	for (int i = 0; i < TRIES; i++) {
		double begin = now();
		work(20000);
		double took = now() - begin;
		if (took < best)
			best = took;
	}
	printf("%ld\n", (long)(20000 * PIECE / 1e6 / best));
	return 0;
}

static int victim(double warm, double seconds, double after, long count)
{
	long most = (long)(seconds * 1e6 / PIECE * 2), ran = 0;
	float *took = malloc(most * sizeof *took);
	if (!took || count < 1)
		return 1;
	memset(took, 0, most * sizeof *took);
	compute(warm);
	double begin = now(), at = begin;
	while (at - begin < seconds && ran < most) {
		work(count);
		double next = now();
		took[ran++] = (next - at) * 1e6;
		at = next;
	}
	/* What is over first: the figures are of pieces, and the rate of the time that they took. */
	double lasted = at - begin;
	qsort(took, ran, sizeof *took, by_size);
	printf("%.1f %.1f %.1f %.1f %.1f\n", ran / lasted * seconds, took[ran / 2], took[(long)(ran * 0.99)],
	       took[(long)(ran * 0.999)], took[ran - 1]);
	fflush(stdout);
	compute(after);
	return 0;
}

static void agent(unsigned seed)
{
	for (;;) {
		double pause = 1e-3 + 19e-3 * rand_r(&seed) / RAND_MAX, busy = 2e-4 + 3.8e-3 * rand_r(&seed) / RAND_MAX;
		struct timespec t = {0, (long)(pause * 1e9)};
		nanosleep(&t, NULL);
		compute(busy);
	}
}

static void played(int agents, int spinners)
{
	for (int i = 0; i < agents + spinners; i++)
		if (fork() == 0) {
			if (i < agents)
				agent(i + 1);
			for (;;)
				work(1000000);
		}
	for (;;)
		pause();
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	if (!strcmp(what, "steps"))
		return steps();
	if (!strcmp(what, "victim") && count == 6)
		return victim(atof(words[2]), atof(words[3]), atof(words[4]), atol(words[5]));
	if (!strcmp(what, "neighbour") && count == 3)
		played(0, atoi(words[2]));
	if (!strcmp(what, "host") && count == 4)
		played(atoi(words[2]), atoi(words[3]));
	return 2;
}
