#include "cli/client/show_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

constexpr size_t kTextColumns = 100;     // max width of a line of a system message or a license
constexpr size_t kShownLines = 2;        // shown lines of such a text
constexpr size_t kShownCharacters = 10;  // shown part of an array, approximately

// Collects sections. Each row begins with an empty column, which indents it.
class Sections {
 public:
  void add(const std::string& title, std::vector<Row> rows) {
    if (rows.empty()) return;
    for (Row& row : rows) row.insert(row.begin(), "");
    text_ += "  " + title + "\n" + table_text({}, rows) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

const Json& object_field(const Json& object, const char* key) {
  static const Json empty = Json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : empty;
}

// In metadata, a whole number can have the form 2048 or 2048.0.
uint64_t whole(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  const double number = value.is_number() ? value.get<double>() : 0.0;
  return number >= 1 && number < 1e18 ? static_cast<uint64_t>(number) : 0;
}

void add_text(std::vector<Row>& rows, const std::string& name, const std::string& value) {
  if (!value.empty()) rows.push_back({name, value});
}

void add_count(std::vector<Row>& rows, const std::string& name, uint64_t value) {
  if (value > 0) rows.push_back({name, std::to_string(value)});
}

std::vector<Row> model_rows(const Json& reply) {
  const Json& details = object_field(reply, "details");
  const Json& info = object_field(reply, "model_info");
  std::vector<Row> rows;
  add_text(rows, "Remote model", text_field(reply, "remote_model"));
  add_text(rows, "Remote URL", text_field(reply, "remote_host"));
  const std::string architecture = text_field(info, "general.architecture");
  add_text(rows, "architecture",
           architecture.empty() ? text_field(details, "family") : architecture);
  const uint64_t n_weights = count_field(info, "general.parameter_count");
  add_text(rows, "parameters",
           n_weights > 0 ? human_number(n_weights) : text_field(details, "parameter_size"));
  const auto length = [&](const char* name) {
    const uint64_t of_info = count_field(info, (architecture + "." + name).c_str());
    return of_info > 0 ? of_info : count_field(details, name);
  };
  add_count(rows, "context length", length("context_length"));
  add_count(rows, "embedding length", length("embedding_length"));
  add_text(rows, "quantization", text_field(details, "quantization_level"));
  add_text(rows, "requires", text_field(reply, "requires"));
  add_text(rows, "made of", text_field(details, "parent_model"));
  return rows;
}

std::vector<Row> projector_rows(const Json& reply) {
  const Json& info = object_field(reply, "projector_info");
  const std::string architecture = text_field(info, "general.architecture");
  std::vector<Row> rows;
  if (info.empty()) return rows;
  add_text(rows, "architecture", architecture);
  const uint64_t n_weights = count_field(info, "general.parameter_count");
  if (n_weights > 0) rows.push_back({"parameters", human_number(n_weights)});
  const auto vision = [&](const char* name) {
    return count_field(info, (architecture + ".vision." + name).c_str());
  };
  add_count(rows, "embedding length", vision("embedding_length"));
  add_count(rows, "dimensions", vision("projection_dim"));
  return rows;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

std::vector<Row> parameter_rows(const std::string& parameters) {
  std::vector<Row> rows;
  for (const std::string& line : lines_of(parameters)) {
    const size_t name = line.find_first_not_of(" \t");
    if (name == std::string::npos) continue;
    const size_t end = std::min(line.find_first_of(" \t", name), line.size());
    const size_t value = line.find_first_not_of(" \t", end);
    const size_t last = line.find_last_not_of(" \t");
    rows.push_back({line.substr(name, end - name),
                    value == std::string::npos ? "" : line.substr(value, last + 1 - value)});
  }
  return rows;
}

// Wraps a line at blanks into rows of at most kTextColumns columns. Longer words are not split.
void wrap(std::vector<Row>& rows, const std::string& line) {
  if (display_width(line) <= kTextColumns) {
    rows.push_back({line});
    return;
  }
  std::string taken;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!taken.empty() && display_width(taken) + 1 + display_width(word) > kTextColumns) {
      rows.push_back({std::exchange(taken, "")});
    }
    taken += taken.empty() ? word : " " + word;
  }
  if (!taken.empty()) rows.push_back({taken});
}

// Returns the beginning of a long text.
std::vector<Row> head_rows(const std::string& text) {
  std::vector<Row> rows;
  size_t n_lines = 0;
  for (const std::string& line : lines_of(text)) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    if (n_lines++ == kShownLines) {
      rows.push_back({"..."});
      break;
    }
    wrap(rows, line.substr(first, line.find_last_not_of(" \t") + 1 - first));
  }
  return rows;
}

std::string scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return fmt::format("{:g}", value.get<double>());
  return value.is_null() ? "<nil>" : value.dump();
}

std::string array_text(const Json& array) {
  std::string text;
  size_t n_shown = 0;
  size_t width = 1;
  for (const Json& element : array) {
    const std::string item = scalar_text(element);
    width += display_width(item) + (n_shown > 0 ? 2 : 0);
    if (n_shown > 0 && width > kShownCharacters) break;
    text += (n_shown > 0 ? " " : "") + item;
    ++n_shown;
  }
  if (n_shown == array.size()) return "[" + text + "]";
  return fmt::format("[{} ...+{} more]", text, array.size() - n_shown);
}

std::vector<Row> metadata_rows(const Json& reply) {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : object_field(reply, "model_info").items()) {
    sorted[key] = value.is_array() ? array_text(value) : scalar_text(value);
  }
  std::vector<Row> rows;
  for (auto& [key, value] : sorted) rows.push_back({key, value});
  return rows;
}

std::vector<Row> tensor_rows(const Json& reply) {
  std::vector<Row> rows;
  const auto tensors = reply.find("tensors");
  if (tensors == reply.end() || !tensors->is_array()) return rows;
  for (const Json& tensor : *tensors) {
    std::string shape;
    if (tensor.is_object() && tensor.contains("shape") && tensor["shape"].is_array()) {
      for (const Json& n : tensor["shape"]) {
        shape += (shape.empty() ? "" : " ") + std::to_string(whole(n));
      }
    }
    rows.push_back({text_field(tensor, "name"), text_field(tensor, "type"), "[" + shape + "]"});
  }
  return rows;
}

}  // namespace

std::string text_field(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t count_field(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() ? whole(*found) : 0;
}

std::vector<std::string> texts_field(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& text : *found) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::string show_text(const Json& reply, bool verbose) {
  Sections sections;
  sections.add("Model", model_rows(reply));
  std::vector<Row> capabilities;
  for (std::string& name : texts_field(reply, "capabilities")) {
    capabilities.push_back({std::move(name)});
  }
  sections.add("Capabilities", std::move(capabilities));
  sections.add("Projector", projector_rows(reply));
  sections.add("Parameters", parameter_rows(text_field(reply, "parameters")));
  if (verbose) {
    sections.add("Metadata", metadata_rows(reply));
    sections.add("Tensors", tensor_rows(reply));
  }
  sections.add("System", head_rows(text_field(reply, "system")));
  sections.add("License", head_rows(text_field(reply, "license")));
  return sections.take();
}

}  // namespace billow::cli
