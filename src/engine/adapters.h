// The adapters of one model. An adapter is loaded when an answer first needs it. Any number of
// answers can use it at the same time. Afterwards it is cached until its memory is needed.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arch/adapter.h"
#include "context/ledger.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "nn/adapter.h"
#include "tensor/tensor.h"

namespace billow::engine {

// A GGUF file of an adapter, and the factor for its products.
struct AdapterFile {
  std::string path;
  float scale = 1.0f;
  auto operator<=>(const AdapterFile&) const = default;
};
// Several adapters are added together. Empty: the model alone.
using AdapterFiles = std::vector<AdapterFile>;

// Returns the memory that adapters need when they are loaded. Throws the same Error as
// arch::adapter_need().
arch::AdapterNeed need_of(const arch::AdapterBase& base, const AdapterFiles& files);

class Adapters {
 public:
  // One set of files.
  class Entry {
   public:
    uint64_t number() const noexcept { return number_; }  // from 1 on; see kv::TextMarks
    const arch::AdapterNeed& need() const noexcept { return need_; }
    // Returns the adapter. REQUIRES: the caller has a lease.
    const nn::Adapter* loaded() const noexcept { return loaded_.get(); }

   private:
    friend class Adapters;
    AdapterFiles files_;
    uint64_t number_ = 0;
    arch::AdapterNeed need_;
    // The mutex guards the following members.
    std::unique_ptr<const nn::Adapter> loaded_;  // null: not loaded
    size_t n_users_ = 0;
    uint64_t last_use_ = 0;
  };

  // One use of an entry, until reset(). An empty lease has no adapter.
  class Lease {
   public:
    Lease() = default;
    // Takes over a use that use() has counted.
    Lease(Adapters& adapters, std::shared_ptr<Entry> entry)
        : adapters_(&adapters), entry_(std::move(entry)) {}
    ~Lease() { reset(); }
    Lease(Lease&& other) noexcept
        : adapters_(other.adapters_), entry_(std::exchange(other.entry_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept {
      if (this == &other) return *this;
      reset();
      adapters_ = other.adapters_;
      entry_ = std::exchange(other.entry_, nullptr);
      return *this;
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    explicit operator bool() const noexcept { return entry_ != nullptr; }
    const nn::Adapter* adapter() const noexcept {  // null if empty
      return entry_ == nullptr ? nullptr : entry_->loaded();
    }
    const std::shared_ptr<Entry>& entry() const noexcept { return entry_; }
    void reset() noexcept {
      if (entry_ != nullptr) adapters_->release(*std::exchange(entry_, nullptr));
    }

   private:
    Adapters* adapters_ = nullptr;
    std::shared_ptr<Entry> entry_;
  };

  // All arguments must outlive this object.
  Adapters(const gguf::File& file, const std::vector<tensor::Tensor>& matrices,
           const kernels::KernelTable& kernels, context::Ledger& ledger)
      : file_(file), matrices_(matrices), kernels_(kernels), ledger_(ledger) {}

  // Returns the entry of these files, or null for no files. Reads the files' headers at the first
  // call. Throws the same Error as arch::adapter_need().
  std::shared_ptr<Entry> find(const AdapterFiles& files);

  // Returns the entry if find() was called for these files before, else null.
  std::shared_ptr<Entry> known(const AdapterFiles& files) const;

  // Returns how many bytes one more use needs if nothing is cached.
  uint64_t wanted_bytes(const Entry& entry) const;
  // Grants bytes (MemoryClass::kAdapters). If memory is short, frees cached memory, for example
  // with drop_idle(). Returns false if there is still too little.
  using Grant = std::function<bool(uint64_t bytes)>;
  // Starts one more use. Loads the entry if it is not loaded. Returns an empty lease if there is no
  // memory for it. Throws Error if the entry cannot be loaded, after releasing the granted memory.
  Lease use(const std::shared_ptr<Entry>& entry, const Grant& grant);

  // Frees the least recently used adapter that is not in use. Returns false if there is none.
  bool drop_idle();
  // Returns how many bytes drop_idle() has freed so far. Any thread.
  uint64_t evicted_bytes() const noexcept { return evicted_bytes_; }

 private:
  arch::AdapterBase base() const { return {file_, matrices_}; }
  void release(Entry& entry) noexcept;
  bool add_user(Entry& entry);

  const gguf::File& file_;
  const std::vector<tensor::Tensor>& matrices_;
  const kernels::KernelTable& kernels_;
  context::Ledger& ledger_;
  std::mutex loading_;  // held while an entry is loaded; locked before mutex_
  mutable std::mutex mutex_;
  std::map<AdapterFiles, std::shared_ptr<Entry>> entries_;
  uint64_t clock_ = 0;
  std::atomic<uint64_t> evicted_bytes_{0};
};

}  // namespace billow::engine
