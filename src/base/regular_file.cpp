#include "base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace billow {
namespace {

// On Linux, one call reads at most 2 GiB.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;

}  // namespace

RegularFile::RegularFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  // open() fails for a socket.
  if (fd_ < 0 && errno == ENXIO)
    throw Error(ErrorCode::kInvalidInput, path + " is not a regular file");
  if (fd_ < 0) throw system_error("cannot open", path, errno);
  try {
    if (::fstat(fd_, &status_) != 0) throw system_error("cannot read", path, errno);
    if (S_ISDIR(status_.st_mode))
      throw Error(ErrorCode::kInvalidInput, path + " is a directory; give the path of a file");
    if (!S_ISREG(status_.st_mode))
      throw Error(ErrorCode::kInvalidInput, path + " is not a regular file");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), status_(other.status_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(status_, other.status_);
  return *this;
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

size_t RegularFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  size_t n_read = 0;
  while (n_read < bytes.size()) {
    const ssize_t n =
        ::pread(fd_, bytes.data() + n_read, std::min(bytes.size() - n_read, kMaxPieceBytes),
                static_cast<off_t>(offset + n_read));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error("cannot read", path_, errno);
    if (n == 0) break;
    n_read += static_cast<size_t>(n);
  }
  return n_read;
}

}  // namespace billow
