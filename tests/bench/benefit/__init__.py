"""The value of changing CPUs: a bursty server next to a batch job, under every policy, with the same load."""
