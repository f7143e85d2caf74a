#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace billow {
namespace {

std::string version_of(const RegularFile& file) {
  const struct stat& status = file.status();
  return file.path() + " " + std::to_string(file.size_bytes()) + " " +
         std::to_string(status.st_ino) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const RegularFile file(path);
  if (file.size_bytes() == 0) throw Error(ErrorCode::kInvalidInput, path + " is empty");
  size_ = file.size_bytes();
  version_ = version_of(file);
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) throw system_error("cannot map", path, errno);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      version_(std::move(other.version_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(version_, other.version_);
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
