"""Between a server and its clients on other machines: messages, security, patience. Nothing here learns.

messages     the messages of a round as bytes, and back, each field checked
fields       the small values of a message
frames       a message as bytes: a small header, then tensors as they are in memory
header       the header of a message: strict JSON, checked field by field
transport/   bytes between named clients and a server, in conversations that survive a blink of the network
certs/       certificates: who may connect, and why a connection was refused
status/      a served run to watch: a live page, Prometheus metrics
journal      a served run as events for the logs
logs         what happens, as lines of text or of JSON
plain        text from elsewhere, made safe to show

What it needs comes with the extra `net`: pip install "smofi[net]". Internal: may change without notice.
"""

import os

# gRPC writes to stderr by itself, and gets in the way of processes that fork; both are read when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
