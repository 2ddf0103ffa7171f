"""The engine: rounds, from a plan to a new global model, wherever the rows live.

Read it in this order:

round        the paper's Algorithm 2, for every method
plan         what a round will do, decided before it starts
run          the rounds one after the other: evaluated, recorded, saved, stopped
state        what a run carries from round to round
checkpoint   the same with the run's history
events       what happens during a run, as values that a callback sees
evaluate     how good the global model is
metrics      by which measures, and which of them is judged
stopping     when to stop early
check        what is refused before any training
assembly     a run put together from all of these
passes       what a forward pass needs besides its model
noise        what is random inside a step
finite       whether numbers are finite

and in packages of their own:

cohort/      a round's rows: the halves of a client, ways to take a step, fusion, sums
at_once/     many clients in one pass
processes/   the workers that share the work
cpu/         cheaper passes on a CPU
memory/      what a run needs, and a limit on it
remote/      clients on other machines

Internal: may change without notice.
"""
