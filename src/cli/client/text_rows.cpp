#include "cli/client/text_rows.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "api/json_reader.h"
#include "base/json.h"
#include "base/text.h"

namespace billow::cli {
namespace {

int keep_open(std::FILE* /*file*/) { return 0; }

}  // namespace

RowFormat row_format_of(const std::string& path) {
  const std::string name = lower_case(path);
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return RowFormat::kJsonLines;
  return name.ends_with(".csv") ? RowFormat::kCsv : RowFormat::kLines;
}

TextRows::TextRows(std::string path, RowFormat format, std::string field)
    : name_(path.empty() ? "standard input" : path),
      format_(format),
      field_(std::move(field)),
      file_(path.empty() ? stdin : std::fopen(path.c_str(), "rbe"),
            path.empty() ? keep_open : std::fclose) {
  if (!file_) throw RowError(name_ + ": " + std::strerror(errno));
  skip_byte_order_mark();
  if (format_ != RowFormat::kCsv) return;
  if (!read_record(record_)) throw RowError(name_ + ": there is no line of column names");
  const auto at = std::ranges::find(record_, field_);
  if (at == record_.end()) {
    throw RowError(name_ + ": there is no column '" + field_ +
                   "'; choose another one with --column");
  }
  column_ = static_cast<size_t>(at - record_.begin());
}

std::string TextRows::at_row(uint64_t row, const std::string& why) const {
  return name_ + ": row " + std::to_string(row) + ": " + why;
}

void TextRows::fail(const std::string& why) const { throw RowError(at_row(n_rows_, why)); }

void TextRows::skip_byte_order_mark() {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  std::string begin;
  while (begin.size() < kMark.size() && kMark.starts_with(begin)) {
    const int byte = get();
    if (byte == EOF) break;
    begin += static_cast<char>(byte);
  }
  if (begin == kMark) return;
  offset_ -= begin.size();
  ahead_.assign(begin.rbegin(), begin.rend());
}

int TextRows::get() {
  if (!ahead_.empty()) {
    const auto byte = static_cast<unsigned char>(ahead_.back());
    ahead_.pop_back();
    ++offset_;
    return byte;
  }
  const int byte = getc_unlocked(file_.get());
  if (byte != EOF) {
    ++offset_;
  } else if (std::ferror(file_.get()) != 0) {
    fail(std::strerror(errno));
  }
  return byte;
}

int TextRows::peek() {
  if (!ahead_.empty()) return static_cast<unsigned char>(ahead_.back());
  const int byte = getc_unlocked(file_.get());
  if (byte != EOF) std::ungetc(byte, file_.get());
  return byte;
}

// Reads a line without its end. Returns false at the end of the file.
bool TextRows::read_line(std::string& line) {
  line.clear();
  int byte = get();
  if (byte == EOF) return false;
  for (; byte != EOF && byte != '\n'; byte = get()) {
    if (line.size() >= kMaxRowBytes) fail("it is longer than 64 MiB");
    line += static_cast<char>(byte);
  }
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

bool TextRows::read_record(std::vector<std::string>& fields) {
  while (peek() == '\n' || peek() == '\r') get();
  fields.clear();
  int byte = get();
  if (byte == EOF) return false;
  fields.emplace_back();
  uint64_t n_bytes = 0;
  bool is_quoted = false;
  for (;; byte = get()) {
    if (++n_bytes > kMaxRowBytes) fail("it is longer than 64 MiB");
    if (byte == EOF) {
      if (is_quoted) fail("a quoted field does not end");
      return true;
    }
    std::string& field = fields.back();
    if (byte == '"' && is_quoted && peek() == '"') {
      field += static_cast<char>(get());
    } else if (byte == '"' && (is_quoted || field.empty())) {
      is_quoted = !is_quoted;
    } else if (!is_quoted && byte == ',') {
      fields.emplace_back();
    } else if (!is_quoted && (byte == '\n' || (byte == '\r' && peek() == '\n'))) {
      if (byte == '\r') get();
      return true;
    } else {
      field += static_cast<char>(byte);
    }
  }
}

bool TextRows::read_row() {
  if (format_ == RowFormat::kCsv) return read_record(record_);
  while (read_line(line_)) {
    if (format_ == RowFormat::kLines || !trimmed(line_).empty()) return true;
  }
  return false;
}

std::optional<std::string> TextRows::next() {
  if (!read_row()) return std::nullopt;
  std::string text;
  if (format_ == RowFormat::kCsv) {
    if (column_ >= record_.size()) fail("it has no column '" + field_ + "'");
    text = std::move(record_[column_]);
  } else if (format_ == RowFormat::kJsonLines) {
    const std::optional<Json> object = api::read_inner_json(line_);
    if (!object || !object->is_object()) fail("it is not a JSON object");
    const auto at = object->find(field_);
    if (at == object->end() || !at->is_string()) fail("it has no text \"" + field_ + "\"");
    text = at->get<std::string>();
  } else {
    text = std::move(line_);
  }
  ++n_rows_;
  return text;
}

std::optional<std::string> TextRows::next_raw() {
  if (format_ != RowFormat::kJsonLines) return next();
  if (!read_row()) return std::nullopt;
  ++n_rows_;
  return std::move(line_);
}

void TextRows::skip(uint64_t n_rows) {
  for (; n_rows > 0; --n_rows) {
    if (!read_row()) {
      throw RowError(name_ + ": it has " + std::to_string(n_rows_) +
                     " rows, fewer than --rows asks for");
    }
    ++n_rows_;
  }
}

void TextRows::resume(uint64_t n_rows, uint64_t offset) {
  if (::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) == 0) {
    ahead_.clear();
    offset_ = offset;
  } else if (errno != ESPIPE || offset < offset_) {
    fail(std::strerror(errno));
  }
  while (offset_ < offset)  // a pipe
    if (get() == EOF) fail("the input is shorter than it was before");
  n_rows_ = n_rows;
}

}  // namespace billow::cli
