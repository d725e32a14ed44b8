// A report in short texts: for the end of a log, a pull request, a CI server.
#pragma once

#include <string>
#include <string_view>

namespace gq::report {

// What a person wants to know when a job has ended: verdict, metrics per output, sizes, partitions,
// latency, every warning. Plain text without control characters; parts that the report does not
// hold are left out.
std::string SummaryText(std::string_view report_json);

// The same as Markdown for a pull-request comment; names are escaped.
std::string SummaryMarkdown(std::string_view report_json);

// JUnit XML: one test case a step and one a goal; a goal that was missed is a failure.
std::string JUnitXml(std::string_view report_json);

// One line a node: operator, precision, the reason for it and its share of the operations.
std::string LayersText(std::string_view report_json);

}  // namespace gq::report
