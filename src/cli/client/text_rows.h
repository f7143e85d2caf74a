// The texts of a file, row by row, in the memory of one row: lines, JSON lines or CSV. Owns what it
// reads from; one thread.
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

// A row that cannot be used, or a file without the rows that were asked for: the input is at fault.
class RowError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class RowFormat : uint8_t {
  kLines,      // each line is a text, an empty one too
  kJsonLines,  // each line is an object with a field; empty lines are no rows
  kCsv,        // RFC 4180 with a line of names; empty lines are no rows
};

// By the end of a file's name: .jsonl, .ndjson, .csv; lines for all others.
RowFormat row_format_of(const std::string& path);

class TextRows {
 public:
  // Of a file; of standard input where `path` is empty. `field` is the name of the JSON field or of
  // the column. Throws RowError where it cannot be read, or there is no such column.
  TextRows(std::string path, RowFormat format, std::string field);

  // The next row's text; nothing at the end. Throws RowError, which names the row.
  std::optional<std::string> next();
  // Goes behind rows without looking into them. Throws RowError where there are fewer.
  void skip(uint64_t n_rows);
  // Goes on behind `n_rows` rows, which end at `offset`: both as they were told before.
  void resume(uint64_t n_rows, uint64_t offset);

  uint64_t n_rows() const noexcept { return n_rows_; }  // that were read or passed
  uint64_t offset() const noexcept { return offset_; }  // bytes that they take
  // "FILE: row 17: WHY", rows counted from 0.
  std::string at_row(uint64_t row, const std::string& why) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;  // of the next row
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
  size_t column_ = 0;
  std::string line_;
  std::vector<std::string> record_;
};

}  // namespace billow::cli
