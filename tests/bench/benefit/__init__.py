"""What changing CPUs are worth: a bursty server beside a batch job, under every policy, on the same load."""
