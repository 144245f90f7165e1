"""Groups of jobs that share machines, COMP beside COMM: which jobs run, with whom, on how many."""
