#include "base/headed_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace billow {
namespace {

size_t page_bytes() noexcept { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

size_t HeadedFile::file_offset(size_t head_bytes) noexcept {
  const size_t page = page_bytes();
  return (head_bytes + page - 1) / page * page;
}

HeadedFile::HeadedFile(size_t head_bytes, const std::string& path) {
  const RegularFile file(path);
  if (file.size_bytes() == 0) throw Error(ErrorCode::kInvalidInput, path + " is empty");
  const size_t n_head = file_offset(head_bytes);
  const size_t n_file = file.size_bytes();
  void* range = ::mmap(nullptr, n_head + n_file, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw system_error("cannot map", path, errno);
  data_ = static_cast<std::byte*>(range);
  n_head_ = n_head;
  n_file_ = n_file;
  const bool has_head = n_head == 0 || ::mprotect(data_, n_head, PROT_READ | PROT_WRITE) == 0;
  if (has_head &&
      ::mmap(data_ + n_head, n_file, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd(), 0) != MAP_FAILED)
    return;
  const int error = errno;
  ::munmap(data_, n_head + n_file);
  throw system_error("cannot map", path, error);
}

HeadedFile::HeadedFile(HeadedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      n_head_(std::exchange(other.n_head_, 0)),
      n_file_(std::exchange(other.n_file_, 0)) {}

HeadedFile& HeadedFile::operator=(HeadedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_head_, other.n_head_);
  std::swap(n_file_, other.n_file_);
  return *this;
}

void HeadedFile::release(std::span<const std::byte> part) const noexcept {
  const std::byte* const begin_of_file = data_ + n_head_;
  if (part.data() < begin_of_file || part.data() + part.size() > begin_of_file + n_file_) return;
  const size_t page = page_bytes();
  const auto first = static_cast<size_t>(part.data() - data_);
  const size_t begin = (first + page - 1) / page * page;  // the range begins at a page
  const size_t end = (first + part.size()) / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

HeadedFile::~HeadedFile() {
  if (data_ != nullptr) ::munmap(data_, n_head_ + n_file_);
}

}  // namespace billow
