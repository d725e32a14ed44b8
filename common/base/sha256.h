// SHA-256 of bytes and streams.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace gq::base {

// Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view bytes);
  // 64 lower-case hexadecimal digits. Ends the computation.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

// True for 64 lower-case hexadecimal digits.
bool IsSha256Hex(std::string_view text);

}  // namespace gq::base
