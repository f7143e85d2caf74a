// A file of vectors while it is made: OUT.part, and OUT.part.json, which tells how far it is, so
// that the same work can go on after whatever ended it. It becomes OUT, whole, by a rename. Owns
// the files; one thread, and by a lock on the part one process.
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

// By the end of a file's name: .npy, JSON lines for all others. Throws Error (kUnsupported) for
// .parquet.
VectorFormat vector_format_of(const std::string& path);

// With the line's end.
void append_json_line(std::string& text, uint64_t row, std::span<const float> vector);

// Another process makes the file now.
class FileInUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class VectorFile {
 public:
  // Goes on with what is there if it is of the same `job`, a text that tells all that the vectors
  // depend on; else begins anew. Throws Error, and FileInUse.
  VectorFile(std::string path, VectorFormat format, std::string job);
  ~VectorFile();
  VectorFile(const VectorFile&) = delete;
  VectorFile& operator=(const VectorFile&) = delete;

  uint64_t n_rows() const noexcept { return n_rows_; }  // that it has
  uint64_t n_values() const noexcept { return n_values_; }
  uint64_t input_offset() const noexcept { return input_offset_; }  // behind them, as it was told
  bool was_of_another_job() const noexcept { return was_of_another_job_; }

  // The next row's vector. Throws Error where its size is not that of the others.
  void append(uint64_t row, std::span<const float> vector);
  // All rows up to now came from the first `input_offset` bytes. At times this puts them on the
  // disk.
  void mark(uint64_t input_offset);
  // Puts them on the disk now.
  void checkpoint();
  // Puts all on the disk under its name; nothing may be called behind it.
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
  uint64_t n_bytes_ = 0;  // of the part, the buffer included
  uint64_t n_rows_ = 0;
  uint64_t n_values_ = 0;
  uint64_t input_offset_ = 0;
  uint64_t n_marked_rows_ = 0;  // what input_offset_ belongs to
  uint64_t n_marked_bytes_ = 0;
  bool was_of_another_job_ = false;
  std::chrono::steady_clock::time_point next_checkpoint_{};
};

}  // namespace billow::cli
