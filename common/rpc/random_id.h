// Random identities.
#pragma once

#include <string>

namespace gq::rpc {

// A random UUID (version 4), e.g. for request_id and upload_id. From the system's random source.
std::string RandomUuid();

}  // namespace gq::rpc
