// The report as one HTML file.
#pragma once

#include <string>
#include <string_view>

namespace gq::report {

// A self-contained page: styles and charts (SVG) are inside, nothing is fetched and there is no
// script. Every text out of the report is escaped. A chart whose data the report does not hold is
// replaced by a sentence that says why.
std::string ReportHtml(std::string_view report_json);

}  // namespace gq::report
