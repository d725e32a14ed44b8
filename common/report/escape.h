// Hostile text made harmless. Names of models, nodes and tensors are chosen by whoever made the
// model.
#pragma once

#include <string>
#include <string_view>

namespace gq::report {

// For the content of an HTML or XML element and for a quoted attribute: control characters, bytes
// that are not UTF-8 and characters that change the direction of writing go, `&<>"'` become
// references.
std::string EscapeHtml(std::string_view text);

// For running text and table cells of Markdown; the result is one line without links, HTML or
// formatting.
std::string EscapeMarkdown(std::string_view text);

// JSON text that may stand inside a <script> element: `<`, `>` and `&` are written as \u escapes.
std::string EscapeJsonForScript(std::string_view json);

}  // namespace gq::report
