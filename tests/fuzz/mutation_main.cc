// Runs a fuzz target without libFuzzer, for builds with other sanitizers: every file of a folder as
// it is, then random changes of these files. The same arguments give the same inputs.
//
//   PROGRAM FOLDER COUNT
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

std::vector<Bytes> ReadAll(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& seeds) : seeds_(seeds) {}

  Bytes Next() {
    Bytes bytes = seeds_[Below(seeds_.size())];
    const size_t changes = 1 + Below(6);
    for (size_t i = 0; i < changes; ++i) Change(bytes);
    return bytes;
  }

 private:
  // Uniform enough, and the same with every standard library.
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void Change(Bytes& bytes) {
    static constexpr uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '[', ':', '\n'};
    const size_t at = Below(bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t length = bytes.empty() ? 0 : 1 + Below(std::min<size_t>(bytes.size() - at, 16));
    const auto end = place + static_cast<std::ptrdiff_t>(length);
    switch (Below(6)) {
      case 0:  // a bit
        if (!bytes.empty()) bytes[at] ^= static_cast<uint8_t>(1u << Below(8));
        break;
      case 1:  // a byte at the edge of what it may be
        if (!bytes.empty()) bytes[at] = kEdges[Below(std::size(kEdges))];
        break;
      case 2:
        bytes.erase(place, end);
        break;
      case 3: {  // a part again
        const Bytes part(place, end);
        bytes.insert(place, part.begin(), part.end());
        break;
      }
      case 4:  // the rest is missing
        bytes.erase(place, bytes.end());
        break;
      default: {  // the rest is that of another file
        const Bytes& other = seeds_[Below(seeds_.size())];
        const size_t from = Below(other.size());
        bytes.erase(place, bytes.end());
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      }
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER COUNT\n", argv[0]);
    return 2;
  }
  const std::vector<Bytes> seeds = ReadAll(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no files in %s\n", argv[0], argv[1]);
    return 2;
  }
  for (const Bytes& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  Mutator mutator(seeds);
  const long count = std::strtol(argv[2], nullptr, 10);
  for (long i = 0; i < count; ++i) {
    const Bytes input = mutator.Next();
    // What crashes the target stays on disk.
    std::ofstream("fuzz-input", std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu files and %ld changes of them read\n", seeds.size(), count);
  return 0;
}
