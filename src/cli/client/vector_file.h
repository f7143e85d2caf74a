// Writes a file of vectors. While it grows, its name is OUT.part, and OUT.part.json stores its
// progress. So the same job can resume after an interruption. At the end, a rename makes it OUT.
// Owns the files. Not thread-safe; a lock on OUT.part keeps other processes out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace billow::cli {

enum class VectorFormat : uint8_t {
  kJsonLines,  // {"index":ROW,"embedding":[...]}
  kNumpy,      // a .npy array of float32, [rows][values]
};

// Returns the format for a file name: kNumpy for .npy, else kJsonLines. Throws Error (kUnsupported)
// for .parquet.
VectorFormat vector_format_of(const std::string& path);

// Appends a line of JSON, with its line end.
void append_json_line(std::string& text, uint64_t row, std::span<const float> vector);

// Another process is writing the file.
class FileInUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class VectorFile {
 public:
  // Resumes an existing part if it belongs to the same `job`; else starts over. `job` is a text
  // that contains everything that the vectors depend on. Throws Error and FileInUse.
  VectorFile(std::string path, VectorFormat format, std::string job);
  ~VectorFile();
  VectorFile(const VectorFile&) = delete;
  VectorFile& operator=(const VectorFile&) = delete;

  uint64_t n_rows() const noexcept { return n_rows_; }  // rows in the file
  uint64_t n_values() const noexcept { return n_values_; }
  uint64_t input_offset() const noexcept {
    return input_offset_;
  }  // the last offset that mark() received
  bool was_of_another_job() const noexcept { return was_of_another_job_; }

  // Appends the vector of the next row. Throws Error if its size differs from earlier vectors.
  void append(uint64_t row, std::span<const float> vector);
  // Records that all rows so far came from the first `input_offset` bytes of the input. At most
  // once per second, calls checkpoint().
  void mark(uint64_t input_offset);
  // Writes all marked rows and the progress to the disk.
  void checkpoint();
  // Writes everything to the disk and renames the file to its final name. No call may follow.
  void publish();

 private:
  bool resume();
  void restart_run();
  void write(std::string_view bytes);
  void flush();

  const std::string path_;
  const std::string part_;
  const std::string state_;
  const VectorFormat format_;
  const std::string job_;
  int file_ = -1;
  std::string buffer_;
  uint64_t n_bytes_ = 0;  // size of the part, including the buffer
  uint64_t n_rows_ = 0;
  uint64_t n_values_ = 0;
  uint64_t input_offset_ = 0;
  uint64_t n_marked_rows_ = 0;  // number of rows at the last mark()
  uint64_t n_marked_bytes_ = 0;
  bool was_of_another_job_ = false;
  std::chrono::steady_clock::time_point next_checkpoint_{};
};

}  // namespace billow::cli
