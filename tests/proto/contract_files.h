// The .proto files of the public contract as protoc sees them.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace gq {

inline std::filesystem::path SourceFolder() {
  const char* folder = std::getenv("GQ_SOURCE_DIR");
  return folder == nullptr ? std::filesystem::current_path() : std::filesystem::path(folder);
}

// Sorted by name, with comments.
inline std::vector<google::protobuf::FileDescriptorProto> ContractFiles() {
  google::protobuf::FileDescriptorSet set;
  EXPECT_TRUE(set.ParseFromString(base::ReadFile(GQ_CONTRACT_SET).value()));
  std::vector<google::protobuf::FileDescriptorProto> files(set.file().begin(), set.file().end());
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  return files;
}

}  // namespace gq
