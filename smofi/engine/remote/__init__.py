"""Clients on other machines: their rows are here, their halves are there, and messages pass between the two.

messages       what a server and a client say to each other in a round
links          how the server reaches its clients, as far as a round needs to know
crossing       the shapes of what crosses a cut, and what is expected of a client when
columns        a client's columns as one vector
device         the client's side: its half, driven by messages
cohort         the server's side: the rows of a round, added up as in a simulation
stepper        the way to take a step: passes, answers, and clients that do not answer
own_servers    when a pass may be made where each client has a server row of its own
one_server     the same where all share a server model
row            one client of a round, as the server sees it
proportion     how far clients may come in a round
weights_later  gradients of the server's weights, computed after the client has its answer
pool           how many server passes are computed at a time
fusion         momentum fusion that survives the loss of a client

Nothing here knows of sockets, and nothing of what a method does: the halves, the fusion and the sums are those of a
simulation, so that a deployed run gives the same numbers.
"""
