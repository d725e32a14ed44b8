// Pieces of work that do not depend on one another, on a few threads.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace gq::quantize {

// Calls work(0) .. work(count - 1), each once, on up to `threads` threads (the caller's among
// them), and returns when all have ended. Of several errors that of the lowest number; pieces that
// have not begun when one fails may be left out. What a piece computes must not depend on the
// others, so that results do not depend on `threads`.
absl::Status ForEach(size_t count, int threads, const std::function<absl::Status(size_t)>& work);

// `threads`, or 1 where `operations` are too few to be worth another thread.
int ThreadsFor(double operations, int threads);

}  // namespace gq::quantize
