#include "kv/prefix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "base/cache_folder.h"
#include "base/check.h"
#include "base/error.h"
#include "kv/state_blocks.h"

namespace billow::kv {
namespace {

// A file is a head and records. A record is a head, one BlockHead for each group, the checksum of
// these two, and the blocks.
struct FileHead {
  std::array<char, 8> magic{};
  uint64_t turn = 0;
  uint64_t n_contents = 0;  // bytes of the contents, which follow the head
  uint64_t sum = 0;         // of the fields above and of the contents
};
struct RecordHead {
  uint64_t magic = 0;
  uint64_t parent = 0;
  uint64_t marks = 0;  // 1: is_long; the other bits: the salt
  std::array<int32_t, kBlockPositions> tokens{};
};
struct BlockHead {
  uint64_t n_bytes = 0;  // 0: no block
  uint64_t sum = 0;
};
constexpr std::array<char, 8> kFileMagic = {'b', 'l', 'w', 'k', 'v', 'f', 'l', '1'};
constexpr uint64_t kRecordMagic = 0x31647263'766b776c;
// Of a record with a salt. Programs that know no salts ignore the file from there on.
constexpr uint64_t kSaltedMagic = 0x32647263'766b776c;
constexpr std::string_view kSuffix = ".kv";
constexpr uint64_t kMaxContents = uint64_t{16} << 20;

uint64_t sum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void append_bytes(std::vector<std::byte>& out, const void* data, size_t n) {
  const auto* begin = static_cast<const std::byte*>(data);
  out.insert(out.end(), begin, begin + n);
}

bool read_all(int fd, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int fd, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<size_t>(n);
  }
  return true;
}

std::vector<std::byte> head_of(uint64_t turn, const std::string& contents) {
  FileHead head = {.magic = kFileMagic, .turn = turn, .n_contents = contents.size()};
  std::vector<std::byte> bytes;
  append_bytes(bytes, &head, offsetof(FileHead, sum));
  append_bytes(bytes, contents.data(), contents.size());
  head.sum = sum_of(bytes);
  std::vector<std::byte> out;
  append_bytes(out, &head, sizeof head);
  append_bytes(out, contents.data(), contents.size());
  return out;
}

// Returns whether the model of a file no longer exists. False if the file cannot be read or has no
// head.
bool model_is_gone(const std::string& path) {
  try {
    const RegularFile file(path);
    FileHead head;
    if (!read_all(file.fd(), 0, std::as_writable_bytes(std::span(&head, size_t{1})))) return false;
    if (head.magic != kFileMagic || head.n_contents > kMaxContents) return false;
    std::string contents(head.n_contents, '\0');
    if (!read_all(file.fd(), sizeof head, std::as_writable_bytes(std::span(contents))))
      return false;
    return !std::filesystem::exists(contents.substr(0, contents.find('\n')));
  } catch (const std::exception&) {
    return false;
  }
}

// Removes a file. If a process has it open, only empties it, because its space would stay in use.
bool remove_or_empty(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT;
  const bool is_done =
      ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? ::unlink(path.c_str()) == 0 : ::ftruncate(fd, 0) == 0;
  ::close(fd);
  return is_done;
}

// Returns false if another process still has the lock at `end`. Throws Error if the file system has
// no locks.
bool lock_before(std::chrono::steady_clock::time_point end, int fd, const std::string& path) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw system_error("cannot lock", path, errno);
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

size_t record_head_bytes(size_t n_groups) {
  return sizeof(RecordHead) + n_groups * sizeof(BlockHead) + sizeof(uint64_t);
}

}  // namespace

PrefixFile::PrefixFile(const PrefixFileOptions& options, const Layout& layout)
    : folder_(options.folder), max_bytes_(options.max_bytes), contents_(options.contents) {
  for (const Group& group : layout.groups) block_bytes_.push_back(group.block_bytes);
  for (size_t i = 0; i < 2; ++i)
    files_[i].path =
        options.folder + "/" + options.name + "." + std::to_string(i) + std::string(kSuffix);
}

PrefixFile::~PrefixFile() {
  for (const File& file : files_)
    if (file.fd >= 0) ::close(file.fd);
}

std::unique_ptr<PrefixFile> PrefixFile::open(const PrefixFileOptions& options, const Layout& layout,
                                             std::string* why) {
  BILLOW_CHECK(record_head_bytes(layout.groups.size()) <= kMaxRecordHead);
  if (options.folder.empty() || options.max_bytes == 0) {
    *why = "no folder or no size is given";
    return nullptr;
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) throw system_error("cannot make folder", options.folder, error.value());
  ::chmod(options.folder.c_str(), 0700);  // other users must not read conversations
  CacheFolder({options.folder, options.max_bytes}).clean(model_is_gone);
  std::unique_ptr<PrefixFile> made(new PrefixFile(options, layout));
  const auto end = std::chrono::steady_clock::now() + options.max_wait;
  for (size_t i = 0; i < 2; ++i) {
    if (made->open_file(i, end)) continue;
    *why = "another process has " + made->files_[i].path;
    return nullptr;
  }
  made->newer_ = made->files_[1].turn > made->files_[0].turn ? 1 : 0;
  File& newer = made->files_[made->newer_];
  if (newer.turn == 0) made->empty(newer, 1);
  return made;
}

// Returns false if another process still has the file open at `end`, or keeps removing the file.
bool PrefixFile::open_file(size_t i, std::chrono::steady_clock::time_point end) {
  constexpr int kTries = 3;
  File& file = files_[i];
  struct stat status{};
  for (int n = 0;; ++n) {
    file.fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file.fd < 0) throw system_error("cannot open", file.path, errno);
    if (!lock_before(end, file.fd, file.path)) return false;
    if (::fstat(file.fd, &status) != 0) throw system_error("cannot read", file.path, errno);
    if (status.st_nlink != 0) break;
    ::close(std::exchange(file.fd, -1));  // removed before it was locked
    if (n == kTries) return false;
  }
  file.n_bytes = static_cast<uint64_t>(status.st_size);
  if (!read_head(file)) empty(file, 0);
  return true;
}

// Returns false if the file has other contents.
bool PrefixFile::read_head(File& file) const {
  FileHead head;
  if (!read_all(file.fd, 0, std::as_writable_bytes(std::span(&head, size_t{1})))) return false;
  if (head.magic != kFileMagic || head.n_contents > kMaxContents || head.turn == 0) return false;
  const std::vector<std::byte> expected = head_of(head.turn, contents_);
  std::vector<std::byte> bytes(expected.size());
  if (!read_all(file.fd, 0, bytes) || bytes != expected) return false;
  file.turn = head.turn;
  return true;
}

// Truncates the file. Turn 0: a file without head and records.
void PrefixFile::empty(File& file, uint64_t turn) {
  file.turn = turn;
  file.n_bytes = 0;
  if (::ftruncate(file.fd, 0) != 0) throw system_error("cannot write", file.path, errno);
  if (turn == 0) return;
  const std::vector<std::byte> head = head_of(turn, contents_);
  if (!write_all(file.fd, 0, head)) throw system_error("cannot write", file.path, errno);
  file.n_bytes = head.size();
}

// Frees space in the folder until n_bytes more fit. Returns false if this store's older file is
// next, or if n_bytes do not fit without the other files.
bool PrefixFile::make_room(uint64_t n_bytes) {
  const std::vector<FolderFile> files = files_by_use(folder_);
  uint64_t sum = 0;
  for (const FolderFile& file : files) sum += file.n_bytes;
  const auto fits = [&] { return sum <= max_bytes_ && n_bytes <= max_bytes_ - sum; };
  for (const FolderFile& file : files) {
    if (fits()) return true;
    if (file.n_bytes == 0 || file.path == files_[newer_].path || !file.path.ends_with(kSuffix))
      continue;
    if (file.path == files_[1 - newer_].path) return false;
    if (remove_or_empty(file.path)) sum -= file.n_bytes;
  }
  return fits();
}

uint64_t PrefixFile::head_bytes() const noexcept { return record_head_bytes(block_bytes_.size()); }

PrefixFile::Room PrefixFile::reserve(uint64_t n_bytes) {
  const File& newer = files_[newer_];
  if (newer.n_bytes > max_bytes() || n_bytes > max_bytes() - newer.n_bytes) return Room::kTurn;
  const FolderLock locked(folder_);
  if (!locked) return Room::kNone;
  if (!make_room(n_bytes + kMaxRecordHead)) return Room::kTurn;  // heads of new files fit, too
  const bool is_reserved = ::ftruncate(newer.fd, static_cast<off_t>(newer.n_bytes + n_bytes)) == 0;
  return is_reserved ? Room::kReserved : Room::kNone;
}

// Another process may empty a file while this one appends to it. Then the file has a hole, whose
// blocks have wrong checksums.
std::vector<uint8_t> PrefixFile::find_emptied() {
  std::vector<uint8_t> emptied;
  for (uint8_t i = 0; i < 2; ++i) {
    File& file = files_[i];
    struct stat status{};
    if (::fstat(file.fd, &status) != 0 || static_cast<uint64_t>(status.st_size) >= file.n_bytes)
      continue;
    emptied.push_back(i);
    file.n_bytes = 0;
    if (i != newer_) continue;
    try {
      empty(file, file.turn);
    } catch (const Error&) {
      file.n_bytes = 0;  // without a head, the next process ignores the file
    }
  }
  return emptied;
}

bool PrefixFile::turn() {
  const uint64_t next = files_[newer_].turn + 1;
  newer_ = static_cast<uint8_t>(1 - newer_);
  try {
    empty(files_[newer_], next);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Stops at the first record that is not whole, and truncates the file there.
void PrefixFile::scan_file(uint8_t number, const std::function<void(const Record&)>& each) {
  File& file = files_[number];
  if (file.turn == 0) return;
  const size_t n_head = record_head_bytes(block_bytes_.size());
  std::vector<std::byte> bytes(n_head);
  uint64_t at = sizeof(FileHead) + contents_.size();
  while (at + n_head <= file.n_bytes && read_all(file.fd, at, bytes)) {
    RecordHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    uint64_t sum = 0;
    std::memcpy(&sum, bytes.data() + n_head - sizeof sum, sizeof sum);
    const uint64_t salt = head.marks >> 1;
    if (head.magic != (salt == 0 ? kRecordMagic : kSaltedMagic) ||
        sum != sum_of(std::span(bytes).first(n_head - sizeof sum)))
      break;
    Record record = {.id = at,
                     .parent = head.parent,
                     .is_long = (head.marks & 1) != 0,
                     .salt = salt,
                     .tokens = head.tokens,
                     .blocks = {}};
    uint64_t next = at + n_head;
    bool is_whole = head.parent < at;
    for (size_t g = 0; g < block_bytes_.size(); ++g) {
      BlockHead block;
      std::memcpy(&block, bytes.data() + sizeof head + g * sizeof block, sizeof block);
      is_whole = is_whole && (block.n_bytes == 0 || block.n_bytes == block_bytes_[g]);
      record.blocks.emplace_back();
      if (block.n_bytes == 0) continue;
      record.blocks.back() = {.offset = next, .sum = block.sum, .file = number};
      next += block.n_bytes;
    }
    if (!is_whole || next > file.n_bytes) break;
    each(record);
    at = next;
  }
  if (at >= file.n_bytes) return;
  if (::ftruncate(file.fd, static_cast<off_t>(at)) != 0)
    throw system_error("cannot write", file.path, errno);
  file.n_bytes = at;
}

void PrefixFile::scan(const std::function<void(uint8_t file, const Record& record)>& each) {
  for (const uint8_t number : {static_cast<uint8_t>(1 - newer_), newer_})
    scan_file(number, [&](const Record& record) { each(number, record); });
}

bool PrefixFile::append(Record& record, std::span<const std::span<const std::byte>> blocks) {
  BILLOW_CHECK(blocks.size() == block_bytes_.size());
  File& file = files_[newer_];
  BILLOW_CHECK(record.salt <= kMaxSalt);
  const RecordHead head = {.magic = record.salt == 0 ? kRecordMagic : kSaltedMagic,
                           .parent = record.parent,
                           .marks = record.salt << 1 | (record.is_long ? 1U : 0U),
                           .tokens = record.tokens};
  std::vector<std::byte> bytes;
  append_bytes(bytes, &head, sizeof head);
  uint64_t next = file.n_bytes + record_head_bytes(blocks.size());
  uint64_t n_all = record_head_bytes(blocks.size());
  record.blocks.assign(blocks.size(), std::nullopt);
  for (size_t g = 0; g < blocks.size(); ++g) {
    BILLOW_CHECK(blocks[g].empty() || blocks[g].size() == block_bytes_[g]);
    const BlockHead block = {blocks[g].size(), blocks[g].empty() ? 0 : sum_of(blocks[g])};
    append_bytes(bytes, &block, sizeof block);
    if (blocks[g].empty()) continue;
    record.blocks[g] = {.offset = next, .sum = block.sum, .file = newer_};
    next += blocks[g].size();
    n_all += blocks[g].size();
  }
  const uint64_t sum = sum_of(bytes);
  append_bytes(bytes, &sum, sizeof sum);
  bool written = disk_has_room(folder_, n_all);
  uint64_t at = file.n_bytes + bytes.size();
  for (const std::span<const std::byte> block : blocks) {
    written = written && write_all(file.fd, at, block);
    at += block.size();
  }
  // The head is written last, so that an unfinished record has no valid head.
  written = written && write_all(file.fd, file.n_bytes, bytes);
  if (!written) {
    (void)!::ftruncate(file.fd, static_cast<off_t>(file.n_bytes));
    return false;
  }
  record.id = file.n_bytes;
  file.n_bytes = at;
  return true;
}

bool PrefixFile::read(const Place& place, std::span<std::byte> out) const {
  const int fd = files_[place.file].fd;
  // Sets the times to now. make_room() looks at the time of modification.
  (void)::futimens(fd, nullptr);
  return read_all(fd, place.offset, out) && sum_of(out) == place.sum;
}

}  // namespace billow::kv
