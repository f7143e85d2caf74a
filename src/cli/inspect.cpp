// billow inspect FILE: shows the contents of a GGUF file, for people or, with --json, for programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_size.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/needs.h"
#include "cli/token_text.h"
#include "gguf/file.h"
#include "gguf/tensor_type.h"

namespace billow::cli {
namespace {

constexpr size_t kShownElements = 8;    // elements of an array that are shown without --full
constexpr size_t kShownBytes = 72;      // bytes of a string that are shown in text without --full
constexpr size_t kShownItemBytes = 24;  // bytes of a string in an array, in text without --full
constexpr size_t kMaxColumn = 48;       // a longer key or name pushes its line to the right

struct Options {
  std::string path;
  bool json = false;
  bool full = false;
};

// Totals of the tensors of one type.
struct Total {
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;
  uint64_t n_bytes = 0;
  void add(const Total& other) {
    n_tensors += other.n_tensors;
    n_elements += other.n_elements;
    n_bytes += other.n_bytes;
  }
};

std::map<std::string, Total> totals_by_type(const gguf::File& file) {
  std::map<std::string, Total> totals;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    totals[gguf::tensor_type_name(tensor.type)].add({1, tensor.n_elements(), tensor.data.size()});
  }
  return totals;
}

// "134.5 M"
std::string human_count(uint64_t n) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  if (n < 1000) return std::to_string(n);
  double size = static_cast<double>(n);
  size_t unit = 0;
  for (; size >= 999.95; ++unit) size /= 1000;
  return fmt::format("{:.1f}{}", size, kUnits[unit]);
}

// Returns the number with the shortest decimal form that is the same float: 1e-05, not
// 9.99999974e-06.
double shortest_as_float(double value) {
  if (!std::isfinite(value)) return value;
  char text[64];
  const auto written = std::to_chars(text, std::end(text), static_cast<float>(value));
  double shortest = value;
  std::from_chars(text, written.ptr, shortest);
  return shortest;
}

gguf::Value element(const gguf::Array& array, uint64_t i) {
  const size_t n_bytes = gguf::value_type_bytes(array.element_type);
  return gguf::decode_scalar(array.element_type, array.bytes.data() + i * n_bytes);
}

// ---- For programs. JSON has no invalid UTF-8 (it becomes U+FFFD) and no infinite numbers (they
// become null).

Json array_json(const gguf::Array& array, bool full);

Json scalar_json(const gguf::Value& value) {
  if (const auto text = gguf::as_string(value)) return utf8::sanitized(*text);
  if (value.type == gguf::ValueType::kBool) return gguf::as_bool(value).value_or(false);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  const double number = std::get<double>(value.data);
  return value.type == gguf::ValueType::kF32 ? shortest_as_float(number) : number;
}

Json elements_json(const gguf::Array& array, bool full) {
  Json list = Json::array();
  const uint64_t n = full ? array.n : std::min<uint64_t>(array.n, kShownElements);
  for (uint64_t i = 0; i < n; ++i) {
    if (array.element_type == gguf::ValueType::kString) {
      list.push_back(utf8::sanitized(array.strings[i]));
    } else if (array.element_type == gguf::ValueType::kArray) {
      list.push_back(array_json(array.arrays[i], full));
    } else {
      list.push_back(scalar_json(element(array, i)));
    }
  }
  return list;
}

Json array_json(const gguf::Array& array, bool full) {
  return {{"type", "array"},
          {"element_type", gguf::value_type_name(array.element_type)},
          {"n", array.n},
          {"value", elements_json(array, full)}};
}

Json value_json(const gguf::Value& value, bool full) {
  if (const gguf::Array* array = gguf::as_array(value)) return array_json(*array, full);
  return {{"type", gguf::value_type_name(value.type)}, {"value", scalar_json(value)}};
}

Json tensor_json(const gguf::TensorInfo& tensor) {
  return {{"name", utf8::sanitized(tensor.name)},
          {"type", gguf::tensor_type_name(tensor.type)},
          {"shape", std::vector(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims)},
          {"n_bytes", tensor.data.size()}};
}

std::vector<std::string> sanitized(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) out.push_back(utf8::sanitized(name));
  return out;
}

Json needs_json(const FileNeeds& needs) {
  Json formats = Json::array();
  for (const TensorGroup& group : needs.unsupported)
    formats.push_back({{"type", group.type}, {"tensors", sanitized(group.names)}});
  return {{"runs", needs.runs},
          {"reason", utf8::sanitized(needs.reason)},
          {"knows_architecture", needs.knows_architecture},
          {"unsupported_formats", std::move(formats)},
          {"unread_tensors", sanitized(needs.unread)},
          {"missing_tensors", sanitized(needs.missing)},
          {"vocabulary", utf8::sanitized(needs.vocabulary)},
          {"ways", needs.ways}};
}

Json report_json(const gguf::File& file, bool full) {
  Json metadata = Json::object();
  for (const gguf::Entry& entry : file.metadata()) {
    metadata[utf8::sanitized(entry.key)] = value_json(entry.value, full);
  }
  Json tensors = Json::array();
  for (const gguf::TensorInfo& tensor : file.tensors()) tensors.push_back(tensor_json(tensor));
  Json totals = Json::object();
  for (const auto& [type, total] : totals_by_type(file)) {
    totals[type] = {{"n_tensors", total.n_tensors},
                    {"n_elements", total.n_elements},
                    {"n_bytes", total.n_bytes}};
  }
  return {{"file", utf8::sanitized(file.path())},
          {"version", file.version()},
          {"alignment", file.alignment()},
          {"n_files", file.n_files()},
          {"n_bytes", file.n_bytes()},
          {"metadata", std::move(metadata)},
          {"tensors", std::move(tensors)},
          {"totals", std::move(totals)},
          {"billow", needs_json(needs_of(file))}};
}

// ---- For people.

// Returns the text in quotes on one line, cut after `max_bytes`; 0: not cut.
std::string quoted(std::string_view text, size_t max_bytes) {
  const bool cut = max_bytes != 0 && text.size() > max_bytes;
  const std::string_view shown =
      cut ? text.substr(0, utf8::whole_length(text.substr(0, max_bytes))) : text;
  // The JSON form escapes quotes and control characters.
  std::string line = Json(utf8::sanitized(shown)).dump();
  if (cut) line += fmt::format("... ({} bytes)", text.size());
  return line;
}

std::string scalar_text(const gguf::Value& value, size_t max_bytes) {
  if (const auto text = gguf::as_string(value)) return quoted(*text, max_bytes);
  const auto* number = std::get_if<double>(&value.data);
  if (number != nullptr && !std::isfinite(*number)) return fmt::format("{}", *number);
  return scalar_json(value).dump();
}

std::string array_text(const gguf::Array& array, bool full) {
  const uint64_t n = full ? array.n : std::min<uint64_t>(array.n, kShownElements);
  std::string list = "[";
  for (uint64_t i = 0; i < n; ++i) {
    if (i != 0) list += ", ";
    if (array.element_type == gguf::ValueType::kString) {
      list += quoted(array.strings[i], full ? 0 : kShownItemBytes);
    } else if (array.element_type == gguf::ValueType::kArray) {
      list += array_text(array.arrays[i], full);
    } else {
      list += scalar_text(element(array, i), 0);
    }
  }
  if (n < array.n) list += ", ...";
  return list + "]";
}

std::string type_text(const gguf::Value& value) {
  const gguf::Array* array = gguf::as_array(value);
  if (array == nullptr) return std::string(gguf::value_type_name(value.type));
  return fmt::format("{}[{}]", gguf::value_type_name(array->element_type), array->n);
}

std::string value_text(const gguf::Value& value, bool full) {
  if (const gguf::Array* array = gguf::as_array(value)) return array_text(*array, full);
  return scalar_text(value, full ? 0 : kShownBytes);
}

// A table. Columns are as wide as their widest cell (at most kMaxColumn), with two spaces between
// them.
struct Table {
  std::string right;  // alignment, one letter per column: 'r' right, 'l' left
  std::vector<std::vector<std::string>> rows;

  std::string text() const {
    std::vector<size_t> widths(right.size());
    for (const auto& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], std::min(row[i].size(), kMaxColumn));
      }
    }
    std::string out;
    for (const auto& row : rows) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += right[i] == 'r' ? fmt::format("  {:>{}}", row[i], widths[i])
                                : fmt::format("  {:<{}}", row[i], widths[i]);
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }
};

// Returns a name as one cell: valid UTF-8, no control characters, quotes only if needed.
std::string name_text(std::string_view name) {
  const std::string text = quoted(name, 0);
  return text.size() == name.size() + 2 ? std::string(name) : text;
}

// "2 tensors: a, b"
std::string names_text(const std::vector<std::string>& names, bool full) {
  const size_t n = full ? names.size() : std::min(names.size(), kShownElements);
  std::string text = fmt::format("{} tensor{}:", names.size(), names.size() == 1 ? "" : "s");
  for (size_t i = 0; i < n; ++i) text += (i == 0 ? " " : ", ") + name_text(names[i]);
  return n < names.size() ? text + ", ... (--full shows all)" : text;
}

// Returns what the file needs and Billow lacks; empty: nothing.
std::string needs_text(const FileNeeds& needs, bool full) {
  if (needs.none()) return {};
  Table table{"ll", {}};
  if (!needs.runs && !needs.knows_architecture)
    table.rows.push_back({"unknown architecture", name_text(needs.architecture)});
  if (!needs.runs) {
    for (const TensorGroup& group : needs.unsupported)
      table.rows.push_back({"unknown format " + group.type, names_text(group.names, full)});
  }
  if (!needs.missing.empty()) table.rows.push_back({"missing", names_text(needs.missing, full)});
  if (!needs.unread.empty()) table.rows.push_back({"not used", names_text(needs.unread, full)});
  if (!needs.vocabulary.empty())
    table.rows.push_back({"vocabulary", visible_text(needs.vocabulary)});
  for (size_t i = 0; i < needs.ways.size(); ++i)
    table.rows.push_back({i == 0 ? "way" : "or", needs.ways[i]});
  return "\nwhat Billow lacks for this file\n" + table.text();
}

std::string summary_text(const gguf::File& file, const Total& all, const FileNeeds& needs) {
  Table table{"ll", {}};
  table.rows.push_back({"file", name_text(file.path())});
  table.rows.push_back(
      {"format", fmt::format("GGUF version {}, alignment {}", file.version(), file.alignment())});
  table.rows.push_back(
      {"size", fmt::format("{} ({} bytes)", format_byte_size(file.n_bytes()), file.n_bytes())});
  if (file.n_files() > 1) table.rows.push_back({"files", std::to_string(file.n_files())});
  if (const auto* value = file.find("general.architecture")) {
    table.rows.push_back({"architecture", name_text(gguf::as_string(*value).value_or("?"))});
  }
  table.rows.push_back({"weights", human_count(all.n_elements)});
  table.rows.push_back({"runs", needs.runs ? "yes" : "no: " + visible_text(needs.reason)});
  return table.text();
}

std::string metadata_text(const gguf::File& file, bool full) {
  Table table{"lll", {}};
  for (const gguf::Entry& entry : file.metadata()) {
    table.rows.push_back(
        {name_text(entry.key), type_text(entry.value), value_text(entry.value, full)});
  }
  return table.text();
}

std::string shape_text(const gguf::TensorInfo& tensor) {
  return fmt::format("{}",
                     fmt::join(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims, " x "));
}

std::string tensors_text(const gguf::File& file) {
  Table table{"lllrr", {{"name", "type", "shape", "bytes", "size"}}};
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    table.rows.push_back({name_text(tensor.name), gguf::tensor_type_name(tensor.type),
                          shape_text(tensor), std::to_string(tensor.data.size()),
                          format_byte_size(tensor.data.size())});
  }
  return table.text();
}

std::vector<std::string> total_row(const std::string& name, const Total& total) {
  const double bits = 8 * static_cast<double>(total.n_bytes);
  return {name,
          std::to_string(total.n_tensors),
          human_count(total.n_elements),
          std::to_string(total.n_bytes),
          format_byte_size(total.n_bytes),
          fmt::format("{:.2f}", bits / static_cast<double>(total.n_elements))};
}

std::string report_text(const gguf::File& file, bool full) {
  Total all;
  Table totals{"lrrrrr", {{"type", "tensors", "weights", "bytes", "size", "bits per weight"}}};
  for (const auto& [type, total] : totals_by_type(file)) {
    totals.rows.push_back(total_row(type, total));
    all.add(total);
  }
  const FileNeeds needs = needs_of(file);
  std::string out = summary_text(file, all, needs) + needs_text(needs, full);
  out += fmt::format("\nmetadata, {} keys\n", file.metadata().size()) + metadata_text(file, full);
  out += fmt::format("\ntensors, {}\n", file.tensors().size());
  if (file.tensors().empty()) return out;
  out += tensors_text(file);
  totals.rows.push_back(total_row("all", all));
  return out + "\ntotals by type\n" + totals.text();
}

void run(const Options& options) {
  const gguf::File file = gguf::File::open(options.path);
  const std::string out = options.json ? report_json(file, options.full).dump(2) + "\n"
                                       : report_text(file, options.full);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a GGUF file");
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->path, "The file; for a split model, the first file")
      ->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--full", options->full, "Print arrays and strings in full");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
