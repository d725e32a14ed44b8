#include "server/events/executor.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

namespace gq::server {

struct Executor::Impl {
  explicit Impl(int threads) : pool(threads) {}
  boost::asio::thread_pool pool;
};

Executor::Executor(int threads) : impl_(std::make_unique<Impl>(threads)) {}

Executor::~Executor() { Stop(); }

void Executor::Post(std::function<void()> work) { boost::asio::post(impl_->pool, std::move(work)); }

void Executor::PostAfter(absl::Duration delay, std::function<void()> work) {
  auto timer =
      std::make_shared<boost::asio::steady_timer>(impl_->pool, absl::ToChronoNanoseconds(delay));
  timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& error) {
    if (!error) work();
  });
}

void Executor::Stop() {
  impl_->pool.stop();
  impl_->pool.join();
}

}  // namespace gq::server
