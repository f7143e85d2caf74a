#include "metrics/waterfall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace billow::metrics {
namespace {

constexpr int64_t kMaxNanoseconds = 1'000'000'000'000'000'000;  // 31 years
constexpr size_t kMaxNameColumns = 24;
constexpr size_t kTimeColumns = 11;
constexpr size_t kMaxAttributeColumns = 60;
constexpr std::string_view kBold = "1";
constexpr std::string_view kDim = "2";
constexpr std::string_view kRed = "31";
constexpr std::string_view kYellow = "33";
constexpr std::string_view kCyan = "36";

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, "not a trace of a request: " + what);
}

const Json* find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Replaces control characters and invalid UTF-8 with '?', so that the terminal gets no commands.
std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const utf8::CodePoint point = utf8::decode(text);
    const bool is_control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    out += !point.valid || is_control ? "?" : std::string(text.substr(0, point.n_bytes));
    text.remove_prefix(point.n_bytes);
  }
  return out;
}

size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Cuts the text to n_columns. A text that was cut ends with "...".
std::string cut(const std::string& text, size_t n_columns) {
  if (width_of(text) <= n_columns) return text;
  const size_t n_dots = std::min<size_t>(n_columns, 3);
  std::string_view rest = text;
  for (size_t n = n_dots; n < n_columns; ++n) rest.remove_prefix(utf8::decode(rest).n_bytes);
  return text.substr(0, text.size() - rest.size()) + std::string(n_dots, '.');
}

std::string padded(const std::string& text, size_t n_columns) {
  const size_t width = width_of(text);
  return width < n_columns ? text + std::string(n_columns - width, ' ') : text;
}

std::string text_at(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (!value) return {};
  if (!value->is_string()) fail(std::string("\"") + name + "\" is not a string");
  return printable(value->get_ref<const std::string&>());
}

int64_t integer_at(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (!value || !value->is_number_integer()) {
    fail(std::string("\"") + name + "\" is not an integer");
  }
  // An unsigned integer above the limit is not a valid time.
  const bool is_huge = value->is_number_unsigned() &&
                       value->get<uint64_t>() > static_cast<uint64_t>(kMaxNanoseconds);
  const int64_t number = is_huge ? kMaxNanoseconds + 1 : value->get<int64_t>();
  if (number > kMaxNanoseconds || number < -kMaxNanoseconds) {
    fail(std::string("\"") + name + "\" is out of range");
  }
  return number;
}

std::string status_text(const Json& trace) {
  return find(trace, "status") ? std::to_string(integer_at(trace, "status")) : "running";
}

std::string value_text(const Json& value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>());
  if (value.is_array()) return "[...]";
  if (value.is_object()) return "{...}";
  return value.dump();
}

struct Moment {
  int64_t begin = 0;
  int64_t end = 0;
};

// A line of the drawing: one span, or all spans of a name.
struct Row {
  std::string name;
  std::vector<Moment> moments;  // sorted by begin
  std::vector<std::pair<std::string, Json>> attributes;

  int64_t total() const {
    // The sum may exceed 64 bits, because there may be many spans.
    double sum = 0.0;
    for (const Moment& moment : moments) sum += static_cast<double>(moment.end - moment.begin);
    return static_cast<int64_t>(std::min(sum, static_cast<double>(kMaxNanoseconds)));
  }
};

bool is_amount(std::string_view name) {
  return name == "tokens" || name == "bytes" || name.ends_with("_tokens") ||
         name.ends_with("_bytes") || name.starts_with("n_");
}

// Adds amounts. Keeps other attributes only if they are equal in both rows.
void merge_attributes(Row& row, const Row& other) {
  std::erase_if(row.attributes, [&](auto& attribute) {
    auto& [name, value] = attribute;
    const auto same =
        std::ranges::find(other.attributes, name, [](const auto& theirs) { return theirs.first; });
    const bool is_sum = is_amount(name) && value.is_number();
    if (same == other.attributes.end()) return !is_sum;
    if (!is_sum || !same->second.is_number()) return value != same->second;
    if (const double sum = value.template get<double>() + same->second.template get<double>();
        std::abs(sum) < 1e15 && sum == std::floor(sum)) {
      value = static_cast<int64_t>(sum);
    } else {
      value = sum;
    }
    return false;
  });
}

Row row_of(const Json& span) {
  if (!span.is_object()) fail("a span is not an object");
  Row row;
  row.name = text_at(span, "name");
  const Moment moment{integer_at(span, "begin"), integer_at(span, "end")};
  if (moment.end < moment.begin) fail("a span ends before it begins");
  row.moments.push_back(moment);
  const Json* attributes = find(span, "attributes");
  if (!attributes) return row;
  if (!attributes->is_object()) fail("\"attributes\" is not an object");
  for (const auto& [name, value] : attributes->items()) {
    // Stores a short text for nested values, because deep values must not be copied or compared.
    row.attributes.emplace_back(name, value.is_structured() ? Json(value_text(value)) : value);
  }
  return row;
}

std::vector<Row> rows_of(const Json& trace) {
  const Json* spans = find(trace, "spans");
  if (!spans || !spans->is_array()) fail("missing \"spans\"");
  std::multimap<int64_t, Row> rows;  // sorted by begin
  std::map<std::string, size_t> n_alike;
  for (const Json& span : *spans) {
    Row row = row_of(span);
    ++n_alike[row.name];
    const int64_t begin = row.moments.front().begin;
    rows.emplace(begin, std::move(row));
  }
  std::vector<Row> folded;
  std::map<std::string, size_t> place;  // index in `folded`
  for (auto& [begin, row] : rows) {
    if (n_alike[row.name] > kMaxAlike) {
      const auto [at, is_first] = place.emplace(row.name, folded.size());
      if (!is_first) {
        merge_attributes(folded[at->second], row);
        folded[at->second].moments.push_back(row.moments.front());
        continue;
      }
    }
    folded.push_back(std::move(row));
  }
  for (Row& row : folded) {
    if (row.moments.size() > 1) row.name += fmt::format(" x {}", row.moments.size());
  }
  return folded;
}

std::string attributes_text(const Row& row) {
  std::string text;
  for (const auto& [name, value] : row.attributes) {
    if (!text.empty()) text += ' ';
    text += cut(printable(name), kMaxAttributeColumns) + "=" +
            cut(value_text(value), kMaxAttributeColumns);
    if (text.size() > 4 * kMaxAttributeColumns) break;
  }
  return text;
}

class Drawing {
 public:
  Drawing(const Json& trace, const WaterfallOptions& options)
      : trace_(trace),
        n_columns_(std::clamp(options.n_columns, kMinColumns, kMaxColumns)),
        colour_(options.colour),
        rows_(rows_of(trace)) {
    end_ = std::max<int64_t>(integer_at(trace, "duration"), 1);
    size_t attribute_columns = 0;
    for (const Row& row : rows_) {
      begin_ = std::min(begin_, row.moments.front().begin);
      for (const Moment& moment : row.moments) end_ = std::max(end_, moment.end);
      name_columns_ = std::max(name_columns_, width_of(row.name));
      attribute_columns = std::max(attribute_columns, width_of(attributes_text(row)));
    }
    name_columns_ = std::min({name_columns_, kMaxNameColumns, n_columns_ / 4});
    attribute_columns_ = std::min(attribute_columns, n_columns_ / 3);
    const size_t other_columns = name_columns_ + 1 + 1 + kTimeColumns +
                                 (attribute_columns_ > 0 ? 2 + attribute_columns_ : 0);
    bar_columns_ = n_columns_ - other_columns;
  }

  std::string text() {
    head();
    for (const Row& row : rows_) line(row);
    if (const Json* left_out = find(trace_, "left_out")) {
      out_ += cut(value_text(*left_out) + " more spans were dropped", n_columns_) + "\n";
    }
    return std::move(out_);
  }

 private:
  void paint(std::string_view how, const std::string& text) {
    out_ += colour_ ? fmt::format("\033[{}m{}\033[0m", how, text) : text;
  }

  void head() {
    std::string title = text_at(trace_, "route");
    for (const std::string& part : {text_at(trace_, "model"), status_text(trace_),
                                    duration_text(integer_at(trace_, "duration"))}) {
      if (!part.empty()) title += "  " + part;
    }
    paint(kBold, cut(title, n_columns_));
    std::string from = text_at(trace_, "id");
    for (const char* name : {"node", "began_at"}) {
      if (const std::string part = text_at(trace_, name); !part.empty()) from += "  " + part;
    }
    out_ += '\n';
    paint(kDim, cut(from, n_columns_));
    out_ += '\n';
    if (const std::string error = text_at(trace_, "error"); !error.empty()) {
      paint(kRed, cut("error: " + error, n_columns_));
      out_ += '\n';
    }
  }

  void line(const Row& row) {
    const bool is_moment = row.total() == 0;
    out_ += padded(cut(row.name, name_columns_), name_columns_) + ' ';
    paint(is_moment ? kYellow : kCyan, bar(row));
    const std::string time =
        is_moment ? "at " + duration_text(row.moments.front().begin) : duration_text(row.total());
    out_ += ' ' + std::string(kTimeColumns - std::min(kTimeColumns, width_of(time)), ' ') +
            cut(time, kTimeColumns);
    if (const std::string text = attributes_text(row); !text.empty() && attribute_columns_ > 0) {
      out_ += "  ";
      paint(kDim, cut(text, attribute_columns_));
    }
    out_ += '\n';
  }

  // Returns the cell of the bar that shows this time.
  size_t cell(int64_t time) const {
    const double share = static_cast<double>(time - begin_) / static_cast<double>(end_ - begin_);
    const auto at = static_cast<size_t>(share * static_cast<double>(bar_columns_));
    return std::min(at, bar_columns_ - 1);
  }

  std::string bar(const Row& row) const {
    enum class Cell : uint8_t { kEmpty, kMoment, kSpan };
    std::vector<Cell> cells(bar_columns_, Cell::kEmpty);
    for (const Moment& moment : row.moments) {
      const size_t first = cell(moment.begin);
      if (moment.begin == moment.end) {
        cells[first] = std::max(cells[first], Cell::kMoment);
        continue;
      }
      // A span that ends where a cell begins does not touch that cell.
      const size_t last = std::max(first, cell(moment.end - 1));
      std::fill(cells.begin() + static_cast<std::ptrdiff_t>(first),
                cells.begin() + static_cast<std::ptrdiff_t>(last) + 1, Cell::kSpan);
    }
    std::string text;
    for (const Cell one : cells) {
      text += one == Cell::kSpan ? "\u2588" : one == Cell::kMoment ? "\u2502" : " ";
    }
    return text;
  }

  const Json& trace_;
  const size_t n_columns_;
  const bool colour_;
  std::vector<Row> rows_;
  int64_t begin_ = 0;
  int64_t end_ = 1;
  size_t name_columns_ = 0;
  size_t attribute_columns_ = 0;
  size_t bar_columns_ = 0;
  std::string out_;
};

}  // namespace

std::string waterfall(std::string_view trace_json, const WaterfallOptions& options) {
  const Json trace = Json::parse(trace_json, nullptr, false);
  if (trace.is_discarded()) fail("invalid JSON");
  if (!trace.is_object()) fail("not an object");
  return Drawing(trace, options).text();
}

std::string trace_table(std::string_view list_json) {
  const Json list = Json::parse(list_json, nullptr, false);
  if (list.is_discarded() || !list.is_object()) fail("not a JSON object");
  const Json* traces = find(list, "traces");
  if (!traces || !traces->is_array()) fail("missing \"traces\"");
  std::vector<std::vector<std::string>> rows = {
      {"ID", "ROUTE", "MODEL", "STATUS", "DURATION", "BEGAN"}};
  for (const Json& trace : *traces) {
    if (!trace.is_object()) fail("one of \"traces\" is not an object");
    rows.push_back({text_at(trace, "id"), text_at(trace, "route"), text_at(trace, "model"),
                    status_text(trace), duration_text(integer_at(trace, "duration")),
                    text_at(trace, "began_at")});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += padded(row[i], widths[i]) + "  ";
    text += row.back() + "\n";
  }
  return text;
}

std::string duration_text(int64_t nanoseconds) {
  const double time = static_cast<double>(nanoseconds);
  struct Unit {
    const char* name;
    double nanoseconds;
  };
  constexpr Unit kUnits[] = {{"ns", 1.0}, {"\u00b5s", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  constexpr int64_t kMinute = 60;
  const auto whole = static_cast<int64_t>(std::llround(std::abs(time) / 1e9));
  const char* sign = nanoseconds < 0 ? "-" : "";
  if (whole >= 60 * kMinute) {
    const int64_t minutes = whole / kMinute;
    return fmt::format("{}{}h{:02}m", sign, minutes / 60, minutes % 60);
  }
  if (whole >= kMinute) return fmt::format("{}{}m{:02}s", sign, whole / kMinute, whole % kMinute);
  for (const Unit& unit : kUnits) {
    const double value = time / unit.nanoseconds;
    const double size = std::abs(value);
    if (size >= 999.5 && unit.nanoseconds < 1e9) continue;
    if (unit.nanoseconds == 1.0) return fmt::format("{} ns", nanoseconds);
    return fmt::format("{:.{}f} {}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, unit.name);
  }
  return {};
}

}  // namespace billow::metrics
