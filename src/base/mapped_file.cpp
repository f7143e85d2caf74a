#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace billow {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw system_error("cannot open", path, errno);
  struct stat info{};
  const bool stated = ::fstat(fd, &info) == 0;
  const int stat_errno = errno;
  void* mapped = MAP_FAILED;
  int map_errno = 0;
  if (stated && S_ISREG(info.st_mode) && info.st_size > 0) {
    size_ = static_cast<size_t>(info.st_size);
    mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    map_errno = errno;
  }
  ::close(fd);
  if (!stated) throw system_error("cannot read", path, stat_errno);
  if (S_ISDIR(info.st_mode)) {
    throw Error(ErrorCode::kInvalidInput, path + " is a directory; give the path of a file");
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kInvalidInput, path + " is not a regular file; it cannot be mapped");
  }
  if (info.st_size == 0) throw Error(ErrorCode::kInvalidInput, path + " is empty");
  if (mapped == MAP_FAILED) throw system_error("cannot map", path, map_errno);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  if (part.data() < data_ || part.data() + part.size() > data_ + size_) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<size_t>(part.data() - data_);
  const size_t begin = (first + page - 1) / page * page;  // the mapping begins at a page
  const size_t end = (first + part.size()) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace billow
