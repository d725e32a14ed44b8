// Work on the pieces of one tensor by the threads that are there.
#pragma once

#include <cstddef>
#include <functional>

namespace gq::runtime {

class ParallelLoop {
 public:
  virtual ~ParallelLoop() = default;
  // Most pieces that are worked on at the same time.
  virtual size_t workers() const = 0;
  // Calls body(0) ... body(count - 1) and returns when all are done.
  virtual void For(size_t count, const std::function<void(size_t)>& body) = 0;
};

class SerialLoop : public ParallelLoop {
 public:
  size_t workers() const override { return 1; }
  void For(size_t count, const std::function<void(size_t)>& body) override {
    for (size_t i = 0; i < count; ++i) body(i);
  }
};

}  // namespace gq::runtime
