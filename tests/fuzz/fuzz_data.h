// Hostile bytes as a file of samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gq::fuzz {

// Writes the bytes into a file of this name below a folder of the process and reads up to 16
// samples of it, for a model of one small input and for one that leaves its dimensions open.
void ReadAsData(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace gq::fuzz
