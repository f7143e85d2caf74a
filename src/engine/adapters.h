// The adapters of one model: loaded when an answer first asks for them, used by any number of
// answers at once, and kept behind them as long as nobody else wants their memory. Used by the
// engine's thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
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
  struct Entry {
    AdapterFiles files;
    uint64_t number = 0;  // from 1 on: names it in the index of prefixes
    arch::AdapterNeed need;
    std::unique_ptr<const nn::Adapter> loaded;  // null: it is not
    size_t n_users = 0;
    uint64_t last_use = 0;
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

  // The bytes that have to be granted (MemoryClass::kAdapters) before use().
  static uint64_t missing_bytes(const Entry& entry) {
    return entry.loaded == nullptr ? entry.need.bytes : 0;
  }
  // What the budget lacks for one more user, where what is idle has made way.
  static uint64_t wanted_bytes(const Entry& entry) {
    return entry.n_users == 0 ? entry.need.bytes : 0;
  }
  // One more user. Loads it where it is not loaded: then what was granted is given back if that
  // fails, with the Error.
  void use(Entry& entry);
  // One user less.
  void release(Entry& entry);

  // Frees the adapter without users that was used least recently. False where there is none.
  bool drop_idle();

 private:
  arch::AdapterBase base() const { return {file_, matrices_}; }

  const gguf::File& file_;
  const std::vector<tensor::Tensor>& matrices_;
  const kernels::KernelTable& kernels_;
  context::Ledger& ledger_;
  std::map<AdapterFiles, std::shared_ptr<Entry>> entries_;
  uint64_t clock_ = 0;
};

}  // namespace billow::engine
