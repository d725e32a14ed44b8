// The evaluation's part of the report (docs/report.md, "evaluate").
#pragma once

#include <string>

#include "common/accuracy/evaluate.h"
#include "nlohmann/json.hpp"

namespace gq::accuracy {

// A number, or "inf", "-inf", "nan", which JSON has no numbers for.
nlohmann::json JsonNumber(double value);

// Everything but the data's source and digest, which the caller knows.
nlohmann::json EvaluationJson(const Evaluation& evaluation);

// One line for the log: `output 'y': PSNR 41.27 dB, SNR 38.10 dB, pass rate 99.95 %, cosine
// 0.99991`, with the top-1 agreement first for class scores.
std::string SummaryLine(const OutputReport& output);

}  // namespace gq::accuracy
