/* A small server and a batch job for two CPUs: `two_cpus serve SECONDS RATE`, `two_cpus batch SECONDS`.

   serve  Requests arrive at random, RATE a second, and need 5 ms of CPU time on average, log-normal with sigma 1. There
          are as many worker threads as CPUs. Prints the milliseconds that each took, one line each, from when it should
          have arrived.
   batch  As many threads as CPUs walk through memory. Prints how many million hops a second.

   Both wait a little before they count their CPUs: whoever places them is quick, and not instant. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 100000
#define MEAN 0.005 /* seconds */
#define KIB 768
#define LINE 64

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int cpus(void)
{
	cpu_set_t set;
	sched_getaffinity(0, sizeof set, &set);
	return CPU_COUNT(&set);
}

static double chance(void)
{
	return (random() + 1.0) / (RAND_MAX + 2.0);
}

/* The server: arrivals are drawn before, so that the same seed gives the same load. */
static double arrives[MOST], work[MOST], took[MOST];
static int arrived, begun, is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

static void *worker(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (begun == arrived && !is_over)
			pthread_cond_wait(&news, &lock);
		if (begun == arrived) {
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		int mine = begun++;
		pthread_mutex_unlock(&lock);
		double until = now(CLOCK_THREAD_CPUTIME_ID) + work[mine];
		while (now(CLOCK_THREAD_CPUTIME_ID) < until)
			;
		took[mine] = now(CLOCK_MONOTONIC) - arrives[mine];
	}
}

static void serve(double seconds, double rate)
{
	int count = 0, threads = cpus();
	pthread_t each[64];
	srandom(1);
	double start = now(CLOCK_MONOTONIC) + 0.01;
	for (double at = -log(chance()) / rate; at < seconds && count < MOST; at += -log(chance()) / rate) {
		double normal = sqrt(-2 * log(chance())) * cos(2 * M_PI * chance());
		arrives[count] = start + at;
		work[count++] = MEAN * exp(normal - 0.5);
	}
	for (int i = 0; i < threads; i++)
		pthread_create(&each[i], NULL, worker, NULL);
	for (int i = 0; i < count; i++) {
		struct timespec t = {(time_t)arrives[i], (long)((arrives[i] - (time_t)arrives[i]) * 1e9)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		pthread_mutex_lock(&lock);
		arrived++;
		pthread_cond_signal(&news);
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	is_over = 1;
	pthread_cond_broadcast(&news);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < threads; i++)
		pthread_join(each[i], NULL);
	for (int i = 0; i < count; i++)
		printf("%.3f\n", took[i] * 1e3);
}

static atomic_long hops;
static double ends;

static void *walker(void *unused)
{
	size_t count = KIB * 1024 / LINE;
	char *memory = aligned_alloc(4096, count * LINE);
	(void)unused;
	/* A step that has no common divisor with the number of lines visits them all, far from each other. */
	for (size_t i = 0; i < count; i++)
		*(void **)(memory + i * LINE) = memory + (i + 5003) % count * LINE;
	void **at = (void **)memory;
	while (now(CLOCK_MONOTONIC) < ends) {
		for (int i = 0; i < 100000; i++)
			at = *(void **volatile *)at;
		atomic_fetch_add(&hops, 100000);
	}
	return NULL;
}

static void batch(double seconds)
{
	int threads = cpus();
	pthread_t each[64];
	ends = now(CLOCK_MONOTONIC) + seconds;
	for (int i = 0; i < threads; i++)
		pthread_create(&each[i], NULL, walker, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(each[i], NULL);
	printf("%.3f\n", hops / seconds / 1e6);
}

int main(int argc, char **argv)
{
	struct timespec second = {1, 0};
	nanosleep(&second, NULL);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(atof(argv[2]), atof(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "batch"))
		batch(atof(argv[2]));
	else
		return 2;
	return 0;
}
