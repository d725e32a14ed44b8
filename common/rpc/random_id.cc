#include "common/rpc/random_id.h"

#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "absl/strings/escaping.h"

namespace gq::rpc {

std::string RandomUuid() {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::abort();
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string text = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  for (const size_t at : {8, 13, 18, 23}) text.insert(at, "-");
  return text;
}

}  // namespace gq::rpc
