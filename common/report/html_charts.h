// The charts of the report's page, each a section of its own. A chart whose data are missing says
// why.
#pragma once

#include <string>

#include "common/report/json_view.h"

namespace gq::report {

std::string PrecisionMapSection(const Json& report);  // which layer runs in which precision
std::string LayerErrorSection(const Json& report);    // signal to noise of every quantized tensor
std::string ScatterSection(const Json& report);       // FP32 against quantized, per output
std::string ExplorationSection(const Json& report);   // accuracy against share of promoted layers
std::string TensorHistogramSection(
    const Json& report);                         // values of a tensor and its clipping range
std::string LatencySection(const Json& report);  // distribution of the board's latency

// <section> with a heading; the id is made of the heading.
std::string Section(std::string_view heading, std::string_view body);
// A paragraph for what is not there.
std::string Absent(std::string_view reason);

}  // namespace gq::report
