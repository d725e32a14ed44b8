// Failures that the service itself finds.
#pragma once

#include <string_view>

#include "common/base/reason.h"
#include "gq/v1/common.pb.h"

namespace gq::server {

// A failure with the class of its reason.
gq::v1::Failure MakeFailure(base::Reason reason, std::string_view message,
                            std::string_view hint = "");

}  // namespace gq::server
