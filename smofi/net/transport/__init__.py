"""Bytes between named clients and a server, in order and once, whatever the network does in between.

listener       the server's end: clients join, send, receive, leave
dialer         a client's end
events         what both ends tell the application

reception      what the server does with a new stream
peer           one client, as the server sees it
line           a client's connection, made again and again
target         the server of a client, and why it cannot be reached
door           whether a new stream is looked at, before anything of it is read
gate           who may come in
offences       who sends what cannot be used, and is kept out in the end
notices        who is away, back or refused, told at once; of refusals, not too many

link           a session over the stream it has at the moment
session        numbered, acknowledged, sent again, received once
envelope       the bytes before a payload
channels       gRPC and its options
background     the thread that runs the event loop

limits, times  how much, and how long
bucket         a rate
backlog        payloads that wait for the application
backoff        how long to wait before trying again
sizes          how large a payload is
addresses      host:port

Internal: may change without notice.
"""
