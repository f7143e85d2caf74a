#include "cli/client/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file_locks.h"
#include "base/json.h"
#include "base/log.h"
#include "gguf/atomic_file.h"
#include "store/folder.h"

namespace billow::cli {
namespace {

constexpr auto kCheckpointTime = std::chrono::seconds(1);
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr uint64_t kMaxStateBytes = 1 << 20;

void write_all(int file, const std::string& path, std::string_view bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

// Replaces a file atomically.
void replace_file(const std::string& path, std::string_view bytes) {
  const std::string next = path + ".next";
  const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw system_error("cannot write", next, errno);
  try {
    write_all(file, next, bytes, 0);
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

PartFile::PartFile(std::string path, std::string job)
    : path_(std::move(path)),
      part_(path_ + ".part"),
      state_(part_ + ".json"),
      job_(std::move(job)) {
  gguf::check_replaceable(path_);
  file_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw system_error("cannot write", part_, errno);
  try {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) throw FileInUse(part_ + ": another process is writing it");
      if (!means_no_locks(errno)) throw system_error("cannot lock", part_, errno);
      log::warn(part_ + ": this file system has no locks; do not run the same job twice");
    }
    if (!is_file_at(file_, part_)) throw FileInUse(part_ + ": another process is writing it");
    if (!resume()) restart();
  } catch (...) {
    ::close(file_);
    throw;
  }
  n_marked_rows_ = n_rows_;
  n_marked_bytes_ = n_bytes_;
  next_checkpoint_ = std::chrono::steady_clock::now() + kCheckpointTime;
}

PartFile::~PartFile() {
  if (file_ >= 0) ::close(file_);
}

uint64_t PartFile::fact(const std::string& name) const {
  const auto at = facts_.find(name);
  return at == facts_.end() ? 0 : at->second;
}

bool PartFile::resume() {
  const auto state = store::read_file(state_, kMaxStateBytes);
  if (!state) return false;
  const Json json = Json::parse(state->bytes, nullptr, false);
  if (!json.is_object() || !json.contains("job") || json["job"] != job_) {
    was_of_another_job_ = true;
    return false;
  }
  const uint64_t n_bytes = count(json, "bytes");
  const off_t n_stored = ::lseek(file_, 0, SEEK_END);
  if (n_stored < 0 || static_cast<uint64_t>(n_stored) < n_bytes) return false;
  // Removes the rows after the last checkpoint.
  if (::ftruncate(file_, static_cast<off_t>(n_bytes)) != 0)
    throw system_error("cannot write", part_, errno);
  n_bytes_ = n_bytes;
  n_rows_ = count(json, "rows");
  input_offset_ = count(json, "input_offset");
  for (const auto& [name, value] : json.items())
    if (value.is_number_unsigned()) facts_[name] = value.get<uint64_t>();
  return true;
}

void PartFile::restart() {
  if (::unlink(state_.c_str()) != 0 && errno != ENOENT)
    throw system_error("cannot remove", state_, errno);
  if (::ftruncate(file_, 0) != 0) throw system_error("cannot write", part_, errno);
}

void PartFile::write(std::string_view bytes) {
  buffer_ += bytes;
  n_bytes_ += bytes.size();
  if (buffer_.size() >= kBufferBytes) flush();
}

void PartFile::append(std::string_view row) {
  write(row);
  ++n_rows_;
}

// Writes at the known place: a failed flush may have written a part of the buffer.
void PartFile::flush() {
  write_all(file_, part_, buffer_, n_bytes_ - buffer_.size());
  buffer_.clear();
}

void PartFile::mark(uint64_t input_offset, Facts facts) {
  input_offset_ = input_offset;
  n_marked_rows_ = n_rows_;
  n_marked_bytes_ = n_bytes_;
  facts_ = std::move(facts);
  if (std::chrono::steady_clock::now() >= next_checkpoint_) checkpoint();
}

void PartFile::checkpoint() {
  flush();
  if (::fdatasync(file_) != 0) throw system_error("cannot write", part_, errno);
  Json state = {{"job", job_}};
  for (const auto& [name, number] : facts_) state[name] = number;
  state["rows"] = n_marked_rows_;
  state["bytes"] = n_marked_bytes_;
  state["input_offset"] = input_offset_;
  replace_file(state_, state.dump() + "\n");
  next_checkpoint_ = std::chrono::steady_clock::now() + kCheckpointTime;
}

void PartFile::publish(std::string_view begin) {
  flush();
  if (::pwrite(file_, begin.data(), begin.size(), 0) != static_cast<ssize_t>(begin.size()))
    throw system_error("cannot write", part_, errno);
  if (::fsync(file_) != 0) throw system_error("cannot write", part_, errno);
  if (std::rename(part_.c_str(), path_.c_str()) != 0)
    throw system_error("cannot write", path_, errno);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  store::flush_folder(folder.empty() ? "." : folder);
  ::unlink(state_.c_str());
}

void report_resume(const PartFile& file, const std::string& path) {
  if (file.was_of_another_job()) {
    std::fprintf(stderr, "%s.part belongs to another job; starting over\n", path.c_str());
  } else if (file.n_rows() > 0) {
    std::fprintf(stderr, "continuing after %s rows\n", std::to_string(file.n_rows()).c_str());
  }
}

}  // namespace billow::cli
