"""An identity as gRPC takes it: both sides show a certificate, and each checks the other's."""

from __future__ import annotations

import grpc

from smofi.net.certs.identity import Identity


def server_credentials(identity: Identity) -> grpc.ServerCredentials:
    """For `add_secure_port`: clients without a certificate of the authority do not get in. A `Gate` asks for more."""
    return grpc.ssl_server_credentials(
        [(identity.key, identity.cert)], root_certificates=identity.ca, require_client_auth=True
    )


def client_credentials(identity: Identity) -> grpc.ChannelCredentials:
    """For `secure_channel`: the server needs a certificate of the same authority, for the host that is called."""
    return grpc.ssl_channel_credentials(
        root_certificates=identity.ca, private_key=identity.key, certificate_chain=identity.cert
    )
