// Locks a store that several servers share. The servers may be in one process or in separate
// processes. Only one server changes the store at a time. No server removes blobs while another
// server creates a model from blobs. Readers need no lock. The system releases the locks of a
// process when it ends, even after a crash.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>

namespace billow::store {

class StoreLock {
 public:
  // `path` is a file that the first lock creates; its folder must exist then. If the file cannot be
  // created, the locks work only within this object, and a warning is logged.
  explicit StoreLock(std::string path) : path_(std::move(path)) {}
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

  // While a Change exists, no other object changes the store. The constructor throws Error (kIo) if
  // other changes do not end in time.
  class Change {
   public:
    explicit Change(StoreLock& lock) : lock_(lock) { lock_.begin_change(); }
    ~Change() { lock_.end_change(); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    StoreLock& lock_;
  };

  // Takes the lock for the creation of a model, which several creators can share. Throws Error
  // (kIo) if a removal does not end in time.
  void begin_making();
  void end_making() noexcept;

  // Allows the removal of blobs during its lifetime, if it converts to true. Then no other
  // StoreLock creates a model. Creators that use this StoreLock wait in begin_making(), or have
  // already registered the blobs that they need.
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
  // Sets the lock of a byte of the file: F_RDLCK, F_WRLCK or F_UNLCK. Returns false if another
  // StoreLock, in this or another process, has the lock.
  bool set(int byte, short kind) noexcept;
  void set_in_time(int byte, short kind, const char* whom);

  const std::string path_;
  std::mutex mutex_;  // guards the members below; held only briefly, except in begin_making()
  std::condition_variable changed_;
  int fd_ = -1;
  bool warned_ = false;
  bool changing_ = false;
  bool removing_ = false;
  size_t n_makers_ = 0;
};

}  // namespace billow::store
