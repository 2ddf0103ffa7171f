"""A round's clients and their rows: what lives for a run, for a round, for a chunk of rows, and what a step uses.

for a run       setup         what is fixed, the same in every process
                simulation    the same with the clients' samples, and the processes that share the work
                room          memory for rows
                rows          a matrix with a row per client
                execution     client by client or many at once
                choosing      which of the two is faster here, by trying both
                measurements  what such trials took, kept for the next run
for a round     simulated     the cohort that the round loop drives
                context       plan, shares, fused momentum, sums
                fusion        step-wise momentum fusion
                tree_sum      vectors of rows, added in the order of the tree
                sums          what is left of the rows at the end
                diagnostics   why a method helps
for a chunk     chunk         the rows that are computed beside each other
                stretch       neighbours that are cut alike: their columns as segments, and their momenta
                steps         a client's batches, and what is random in them
a step uses     halves        the client's side of the cut and the server's
                steppers/     a class per way to take a step
                local         from a gradient to new weights: the method's slots, then the optimizer
                wire          numbers that cross the cut with fewer bits
"""
