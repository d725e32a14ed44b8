#include "common/compile/device.h"

#include <algorithm>
#include <array>

namespace gq::compile {
namespace {

constexpr int kColumnsOfOne = 4;
constexpr std::array kDevices = {
    DeviceInfo{"ve2-xc2ve3858", "xc2ve3858", 36, 9},
    DeviceInfo{"ve2-xc2ve3558", "xc2ve3558", 24, 6},
    DeviceInfo{"ve2-xc2ve3358", "xc2ve3358", 8, 6},
};

}  // namespace

std::span<const DeviceInfo> KnownDevices() { return kDevices; }

std::optional<DeviceInfo> FindDevice(std::string_view name) {
  if (name == "ve2" || name == "ve2-sim" || name == "t50") return kDevices[0];
  if (name == "t20") return kDevices[1];
  for (const DeviceInfo& device : kDevices) {
    if (name == device.name || name == device.part) return device;
  }
  return std::nullopt;
}

int ColumnsUsed(int tp_size, int dp_size) { return std::max(tp_size, 1) * dp_size * kColumnsOfOne; }

std::vector<int> WideBiasBits(std::string_view device) {
  if (device.empty() || device.starts_with("ve2") || FindDevice(device)) return {32};
  return {};
}

}  // namespace gq::compile
