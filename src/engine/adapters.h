// The adapters of one model: loaded when an answer first asks for them, used by any number of
// answers at once, and cached afterwards as long as nobody else wants their memory. Any thread may
// call.
#pragma once

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

// A GGUF file of an adapter, and how much of it is added.
struct AdapterFile {
  std::string path;
  float scale = 1.0f;
  auto operator<=>(const AdapterFile&) const = default;
};
// Several are added together. Empty: the model alone.
using AdapterFiles = std::vector<AdapterFile>;

// What adapters take while they are loaded. Throws Error as arch::adapter_need().
arch::AdapterNeed need_of(const arch::AdapterBase& base, const AdapterFiles& files);

class Adapters {
 public:
  // One set of files.
  class Entry {
   public:
    uint64_t number() const noexcept { return number_; }  // from 1 on, in the index of prefixes
    const arch::AdapterNeed& need() const noexcept { return need_; }
    // REQUIRES: the caller is one of its users.
    const nn::Adapter* loaded() const noexcept { return loaded_.get(); }

   private:
    friend class Adapters;
    AdapterFiles files_;
    uint64_t number_ = 0;
    arch::AdapterNeed need_;
    // The mutex guards what follows.
    std::unique_ptr<const nn::Adapter> loaded_;  // null: it is not
    size_t n_users_ = 0;
    uint64_t last_use_ = 0;
  };

  // One user, until it is reset. An empty lease has no adapter.
  class Lease {
   public:
    Lease() = default;
    // Of a user that use() has counted.
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
    const nn::Adapter* adapter() const noexcept {  // null: it is empty
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

  // All arguments must outlive it.
  Adapters(const gguf::File& file, const std::vector<tensor::Tensor>& matrices,
           const kernels::KernelTable& kernels, context::Ledger& ledger)
      : file_(file), matrices_(matrices), kernels_(kernels), ledger_(ledger) {}

  // The entry of these files, whose headers are read when they are met first; null for no files.
  // Throws Error as arch::adapter_need().
  std::shared_ptr<Entry> find(const AdapterFiles& files);

  // The same where the files were met before; else null.
  std::shared_ptr<Entry> known(const AdapterFiles& files) const;

  // What the budget lacks for one more user, where what is idle has made way.
  uint64_t wanted_bytes(const Entry& entry) const;
  // Grants bytes (MemoryClass::kAdapters), and drops what nobody uses where memory is short; false
  // when there is none now. It may call drop_idle().
  using Grant = std::function<bool(uint64_t bytes)>;
  // One more user. Loads the entry where it is not loaded: an empty lease when there is no memory
  // for it. Throws Error where it cannot be loaded; what was granted is given back then.
  Lease use(const std::shared_ptr<Entry>& entry, const Grant& grant);

  // Frees the adapter without users that was used least recently. False where there is none.
  bool drop_idle();

 private:
  arch::AdapterBase base() const { return {file_, matrices_}; }
  void release(Entry& entry) noexcept;
  bool add_user(Entry& entry);

  const gguf::File& file_;
  const std::vector<tensor::Tensor>& matrices_;
  const kernels::KernelTable& kernels_;
  context::Ledger& ledger_;
  std::mutex loading_;  // one after the other; taken before mutex_
  mutable std::mutex mutex_;
  std::map<AdapterFiles, std::shared_ptr<Entry>> entries_;
  uint64_t clock_ = 0;
};

}  // namespace billow::engine
