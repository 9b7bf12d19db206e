"""What runs on an owner's CPUs and is not its own: processes, kernel threads, interrupts, and a hypervisor."""
