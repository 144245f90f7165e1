"""Groups of jobs that share machines, COMP beside COMM: which jobs run, on how many machines."""
