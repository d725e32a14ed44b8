// Channel arguments of both ends, in one place because they only work as a pair: the server has to
// permit pings more often than the client sends them, or it ends the connection.
#pragma once

#include <string>

#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"

namespace gq::rpc {

// Kind of program on the client side. People want to know within a second that the server is down;
// agents wait for it.
enum class ChannelUse { kClient, kAgent };

// Keepalive (45 s, timeout 15 s, any number of pings without data), reconnect backoff of 1 to 30 s
// for agents, and the retry policy: 5 attempts on UNAVAILABLE, throttled; delays double from 0.2 s
// on to 5 s for agents, from 0.1 s on for people. Messages keep gRPC's limit of 4 MiB.
grpc::ChannelArguments ClientChannelArguments(ChannelUse use);

// Text of the retry policy, a gRPC service config.
std::string RetryServiceConfig(ChannelUse use);

// The matching server side: pings permitted every 20 s, no shared ports (a second server on a port
// fails to start), 256 streams for each connection, idle connections closed after 15 minutes.
void AddServerArguments(grpc::ServerBuilder& builder);

}  // namespace gq::rpc
