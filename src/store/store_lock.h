// Keeps the servers that share a store out of each other's way, whether they are threads of one
// process or processes: one changes the store at a time, and nobody removes blobs while somebody
// makes a model of them. Readers need no lock. The locks of a process end with it, however it ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>

namespace billow::store {

class StoreLock {
 public:
  // `path` is a file that is made by the first lock; its folder must be there then. Where such a
  // file cannot be had, the locks hold within this object alone, and the log has a warning.
  explicit StoreLock(std::string path) : path_(std::move(path)) {}
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

  // While it lives, nobody else changes the store. Throws Error (kIo) when others do not end in
  // time.
  class Change {
   public:
    explicit Change(StoreLock& lock) : lock_(lock) { lock_.begin_change(); }
    ~Change() { lock_.end_change(); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    StoreLock& lock_;
  };

  // Makers of models share it. Throws Error (kIo) when a removal does not end in time.
  void begin_making();
  void end_making() noexcept;

  // Blobs may be removed while it lives and is not false: nobody else makes a model. Those of this
  // object who do wait in begin_making(), or have said before which blobs they need.
  class Removal {
   public:
    explicit Removal(StoreLock& lock) : lock_(lock), granted_(lock.begin_removal()) {}
    ~Removal() { lock_.end_removal(); }
    Removal(const Removal&) = delete;
    Removal& operator=(const Removal&) = delete;
    explicit operator bool() const noexcept { return granted_; }

   private:
    StoreLock& lock_;
    bool granted_;
  };

 private:
  void begin_change();
  void end_change() noexcept;
  bool begin_removal();
  void end_removal() noexcept;
  void open_file();
  // A lock of a byte of the file: F_RDLCK, F_WRLCK or F_UNLCK. False: another process has it.
  bool set(int byte, short kind) noexcept;
  void set_in_time(int byte, short kind, const char* whom);

  const std::string path_;
  std::mutex mutex_;  // over all below; held only for moments, but by begin_making()
  std::condition_variable changed_;
  int fd_ = -1;
  bool warned_ = false;
  bool changing_ = false;
  bool removing_ = false;
  size_t n_makers_ = 0;
};

}  // namespace billow::store
