#include "server/ledger/failure.h"

#include <string>

namespace gq::server {

gq::v1::Failure MakeFailure(base::Reason reason, std::string_view message, std::string_view hint) {
  const base::ReasonInfo& info = base::GetReasonInfo(reason);
  gq::v1::Failure failure;
  failure.set_reason(std::string(info.name));
  failure.set_message(std::string(message));
  failure.set_hint(std::string(hint));
  switch (info.failure_class) {
    case base::FailureClass::kUser:
      failure.set_failure_class(gq::v1::FAILURE_CLASS_USER);
      break;
    case base::FailureClass::kPlatform:
      failure.set_failure_class(gq::v1::FAILURE_CLASS_PLATFORM);
      break;
    case base::FailureClass::kTimeout:
      failure.set_failure_class(gq::v1::FAILURE_CLASS_TIMEOUT);
      break;
  }
  return failure;
}

}  // namespace gq::server
