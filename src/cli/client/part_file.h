// A result file of bulk work. While it grows, its name is OUT.part, and OUT.part.json stores its
// progress. So the same job can resume after an interruption. At the end, a rename makes it OUT.
// Owns the files. Not thread-safe; a lock on OUT.part keeps other processes out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace billow::cli {

// Another process is writing the file.
class FileInUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PartFile {
 public:
  using Facts = std::map<std::string, uint64_t>;

  // Resumes an existing part if it belongs to the same `job`; else starts over. `job` is a text
  // that contains everything that the results depend on. Throws Error and FileInUse.
  PartFile(std::string path, std::string job);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t n_rows() const noexcept { return n_rows_; }    // rows in the file
  uint64_t n_bytes() const noexcept { return n_bytes_; }  // of the file; 0: it is new
  // The last offset that mark() received.
  uint64_t input_offset() const noexcept { return input_offset_; }
  // Returns a number of the last mark()'s `facts`, or 0.
  uint64_t fact(const std::string& name) const;
  bool was_of_another_job() const noexcept { return was_of_another_job_; }

  // Appends bytes that belong to no row, such as a header.
  void write(std::string_view bytes);
  // Appends the bytes of the next row.
  void append(std::string_view row);
  // Records that all rows so far came from the first `input_offset` bytes of the input. `facts` are
  // numbers that resumed work needs. At most once per second, calls checkpoint().
  void mark(uint64_t input_offset, Facts facts = {});
  // Writes all marked rows and the progress to the disk.
  void checkpoint();
  // Writes everything to the disk and renames the file to its final name. `begin` replaces the
  // first bytes of the file. No call may follow.
  void publish(std::string_view begin = {});

 private:
  bool resume();
  void restart();
  void flush();

  const std::string path_;
  const std::string part_;
  const std::string state_;
  const std::string job_;
  int file_ = -1;
  std::string buffer_;
  uint64_t n_bytes_ = 0;  // includes the buffer
  uint64_t n_rows_ = 0;
  uint64_t input_offset_ = 0;
  uint64_t n_marked_rows_ = 0;  // number of rows at the last mark()
  uint64_t n_marked_bytes_ = 0;
  Facts facts_;
  bool was_of_another_job_ = false;
  std::chrono::steady_clock::time_point next_checkpoint_{};
};

// Writes to standard error whether the part of `path` is continued or starts over. Nothing if it is
// new.
void report_resume(const PartFile& file, const std::string& path);

}  // namespace billow::cli
