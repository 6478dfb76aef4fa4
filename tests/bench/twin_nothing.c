/* Preloaded in place of the tracer: what any preloaded library adds to a process's start. */
int bench_twin_nothing;
