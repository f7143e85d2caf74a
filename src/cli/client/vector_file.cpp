#include "cli/client/vector_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "api/vector_text.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/numpy.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

constexpr auto kCheckpointTime = std::chrono::seconds(1);
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr uint64_t kMaxStateBytes = 1 << 20;

void write_all(int file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// Replaces a file atomically.
void replace_file(const std::string& path, std::string_view bytes) {
  const std::string next = path + ".next";
  const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw system_error("cannot write", next, errno);
  try {
    write_all(file, next, bytes);
    if (::fdatasync(file) != 0) throw system_error("cannot write", next, errno);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
  if (std::rename(next.c_str(), path.c_str()) != 0) throw system_error("cannot write", path, errno);
}

// Returns whether `file` is still the file at `path`. It is not if the process with the lock has
// published it.
bool is_file_at(int file, const std::string& path) {
  struct stat open_one{};
  struct stat current{};
  return ::fstat(file, &open_one) == 0 && ::stat(path.c_str(), &current) == 0 &&
         open_one.st_ino == current.st_ino && open_one.st_dev == current.st_dev;
}

uint64_t count(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
}

}  // namespace

VectorFormat vector_format_of(const std::string& path) {
  const std::string name = lower_case(path);
  if (name.ends_with(".parquet")) {
    throw Error(ErrorCode::kUnsupported,
                path + ": Parquet is not supported; write .npy or .jsonl and convert the file");
  }
  return name.ends_with(".npy") ? VectorFormat::kNumpy : VectorFormat::kJsonLines;
}

void append_json_line(std::string& text, uint64_t row, std::span<const float> vector) {
  text += "{\"index\":" + std::to_string(row) + ",\"embedding\":";
  api::append_vector(text, vector);
  text += "}\n";
}

VectorFile::VectorFile(std::string path, VectorFormat format, std::string job)
    : path_(std::move(path)),
      part_(path_ + ".part"),
      state_(part_ + ".json"),
      format_(format),
      job_(std::move(job)) {
  file_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw system_error("cannot write", part_, errno);
  try {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0 || !is_file_at(file_, part_))
      throw FileInUse(part_ + ": another process is writing it");
    if (!resume()) restart_run();
  } catch (...) {
    ::close(file_);
    throw;
  }
  n_marked_rows_ = n_rows_;
  n_marked_bytes_ = n_bytes_;
  next_checkpoint_ = std::chrono::steady_clock::now() + kCheckpointTime;
}

VectorFile::~VectorFile() {
  if (file_ >= 0) ::close(file_);
}

bool VectorFile::resume() {
  const auto state = store::read_file(state_, kMaxStateBytes);
  if (!state) return false;
  const Json json = Json::parse(state->bytes, nullptr, false);
  if (!json.is_object() || !json.contains("job") || json["job"] != job_) {
    was_of_another_job_ = true;
    return false;
  }
  n_bytes_ = count(json, "bytes");
  const off_t n_stored = ::lseek(file_, 0, SEEK_END);
  if (n_stored < 0 || static_cast<uint64_t>(n_stored) < n_bytes_) return false;
  // Removes the rows after the last checkpoint.
  if (::ftruncate(file_, static_cast<off_t>(n_bytes_)) != 0 || ::lseek(file_, 0, SEEK_END) < 0)
    throw system_error("cannot write", part_, errno);
  n_rows_ = count(json, "rows");
  n_values_ = count(json, "values");
  input_offset_ = count(json, "input_offset");
  return true;
}

void VectorFile::restart_run() {
  n_bytes_ = 0;
  if (::unlink(state_.c_str()) != 0 && errno != ENOENT)
    throw system_error("cannot remove", state_, errno);
  if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) < 0)
    throw system_error("cannot write", part_, errno);
  if (format_ == VectorFormat::kNumpy) write(numpy_header(0, 0));
}

void VectorFile::write(std::string_view bytes) {
  buffer_ += bytes;
  n_bytes_ += bytes.size();
  if (buffer_.size() >= kBufferBytes) flush();
}

void VectorFile::flush() {
  write_all(file_, part_, buffer_);
  buffer_.clear();
}

void VectorFile::append(uint64_t row, std::span<const float> vector) {
  if (n_rows_ == 0) n_values_ = vector.size();
  if (vector.size() != n_values_) {
    throw Error(ErrorCode::kInvalidInput,
                "the server returned a vector of " + std::to_string(vector.size()) +
                    " values for row " + std::to_string(row) + ", but of " +
                    std::to_string(n_values_) + " values for earlier rows; has the model changed?");
  }
  std::string bytes;
  if (format_ == VectorFormat::kJsonLines) {
    append_json_line(bytes, row, vector);
  } else {
    append_numpy_values(bytes, vector);
  }
  write(bytes);
  ++n_rows_;
}

void VectorFile::mark(uint64_t input_offset) {
  input_offset_ = input_offset;
  n_marked_rows_ = n_rows_;
  n_marked_bytes_ = n_bytes_;
  if (std::chrono::steady_clock::now() >= next_checkpoint_) checkpoint();
}

void VectorFile::checkpoint() {
  flush();
  if (::fdatasync(file_) != 0) throw system_error("cannot write", part_, errno);
  const Json state = {{"job", job_},
                      {"rows", n_marked_rows_},
                      {"bytes", n_marked_bytes_},
                      {"values", n_values_},
                      {"input_offset", input_offset_}};
  replace_file(state_, state.dump() + "\n");
  next_checkpoint_ = std::chrono::steady_clock::now() + kCheckpointTime;
}

void VectorFile::publish() {
  flush();
  if (format_ == VectorFormat::kNumpy) {
    const std::string header = numpy_header(n_rows_, n_values_);
    if (::pwrite(file_, header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()))
      throw system_error("cannot write", part_, errno);
  }
  if (::fsync(file_) != 0) throw system_error("cannot write", part_, errno);
  if (std::rename(part_.c_str(), path_.c_str()) != 0)
    throw system_error("cannot write", path_, errno);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  store::flush_folder(folder.empty() ? "." : folder);
  ::unlink(state_.c_str());
}

}  // namespace billow::cli
