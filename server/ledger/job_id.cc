#include "server/ledger/job_id.h"

#include <algorithm>
#include <random>

namespace gq::server {
namespace {

constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr int kTimeCharacters = 9;
constexpr int kRandomCharacters = 5;
constexpr uint32_t kRandomRange = uint32_t{1} << (5 * kRandomCharacters);

void AppendBase32(std::string* id, uint64_t value, int characters) {
  for (int i = characters - 1; i >= 0; --i) id->push_back(kAlphabet[(value >> (5 * i)) & 31]);
}

}  // namespace

std::string IdGenerator::Next(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const auto milliseconds = static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixMillis(now)));
  if (milliseconds > last_milliseconds_) {
    last_milliseconds_ = milliseconds;
    std::random_device random;
    // The upper half is left for further ids of the same millisecond.
    last_random_ = random() % (kRandomRange / 2);
  } else if (++last_random_ >= kRandomRange) {
    ++last_milliseconds_;
    last_random_ = 0;
  }
  std::string id;
  AppendBase32(&id, last_milliseconds_, kTimeCharacters);
  AppendBase32(&id, last_random_, kRandomCharacters);
  return id;
}

}  // namespace gq::server
