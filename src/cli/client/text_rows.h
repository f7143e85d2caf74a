// Reads the texts of a file row by row: lines, JSON lines or CSV. Holds one row in memory. Owns the
// file. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace billow::cli {

inline constexpr uint64_t kMaxRowBytes = uint64_t{64} << 20;

// An input error: a row that cannot be used, or a file without the requested rows.
class RowError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class RowFormat : uint8_t {
  kLines,      // each line is a text, even an empty line
  kJsonLines,  // each line is an object with a field; empty lines are skipped
  kCsv,        // RFC 4180 with a header line; empty lines are skipped
};

// Returns the format for a file name: .jsonl, .ndjson or .csv; kLines for other names.
RowFormat row_format_of(const std::string& path);

class TextRows {
 public:
  // Opens a file, or standard input if `path` is empty. `field` is the name of the JSON field or of
  // the column. Throws RowError if the file cannot be read or has no such column.
  TextRows(std::string path, RowFormat format, std::string field);

  // Returns the next row's text; nullopt at the end. Throws RowError with the row's number.
  std::optional<std::string> next();
  // Returns the next row's text, or the whole line of JSON lines without checking it.
  std::optional<std::string> next_raw();
  // Skips rows without checking them. Throws RowError if there are fewer rows.
  void skip(uint64_t n_rows);
  // Continues after `n_rows` rows, which end at `offset`. Both are values of an earlier reader. A
  // pipe must have the same bytes again.
  void resume(uint64_t n_rows, uint64_t offset);

  uint64_t n_rows() const noexcept { return n_rows_; }  // rows that were read or skipped
  uint64_t offset() const noexcept { return offset_; }  // bytes of these rows
  // Returns "FILE: row 17: WHY". Rows are counted from 0.
  std::string at_row(uint64_t row, const std::string& why) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;  // names the next row
  void skip_byte_order_mark();
  int get();
  int peek();
  bool read_line(std::string& line);
  bool read_record(std::vector<std::string>& fields);
  bool read_row();

  std::string name_;
  RowFormat format_;
  std::string field_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  uint64_t n_rows_ = 0;
  uint64_t offset_ = 0;
  std::string ahead_;  // bytes that were read, but are still to be returned by get(), last first
  size_t column_ = 0;
  std::string line_;
  std::vector<std::string> record_;
};

}  // namespace billow::cli
