// The VE2 devices: names and column counts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gq::compile {

struct DeviceInfo {
  std::string_view name;  // as vitisai_config.json has it
  std::string_view part;
  int columns;
  int max_size;  // largest dp_size and tp_size
};

// The devices whose column count is documented.
std::span<const DeviceInfo> KnownDevices();

// Finds a device by its name, its part, `ve2` (the largest), `t50`, `t20`, or `ve2-sim` (the
// largest, simulated). Nothing for another name.
std::optional<DeviceInfo> FindDevice(std::string_view name);

// Columns that tensor and data parallelism use together: 4 a pair. A tp_size of 0 lets the compiler
// choose and counts as 1.
int ColumnsUsed(int tp_size, int dp_size);

// Widths in bits of a bias beside int8 that compute layers on `device` take, the one to prefer
// first. VE2's Conv and Gemm kernels add 16 bits whatever the file holds (its compiler lists them
// as (i8, i8, i16)). int32 is what Quark writes on every path but the NPU's, so the compiler reads
// it; int16 in Q/DQ needs opset 21, for which no VE2 model is published. Empty: a device of which
// nothing is known.
std::vector<int> WideBiasBits(std::string_view device);

}  // namespace gq::compile
