#include "engine/adapters.h"

#include <utility>

#include "base/check.h"

namespace billow::engine {
namespace {

using context::MemoryClass;

// The files, open, and what they are to `arch`.
struct OpenFiles {
  explicit OpenFiles(const AdapterFiles& files) {
    opened.reserve(files.size());
    for (const AdapterFile& file : files) {
      opened.push_back(gguf::File::open(file.path, gguf::StringArrays::kSkipped));
      sources.push_back({&opened.back(), file.scale});
    }
  }
  std::vector<gguf::File> opened;
  std::vector<arch::AdapterSource> sources;
};

}  // namespace

arch::AdapterNeed need_of(const arch::AdapterBase& base, const AdapterFiles& files) {
  const OpenFiles open(files);
  return arch::adapter_need(base, open.sources);
}

std::shared_ptr<Adapters::Entry> Adapters::known(const AdapterFiles& files) const {
  const auto found = entries_.find(files);
  return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<Adapters::Entry> Adapters::find(const AdapterFiles& files) {
  if (files.empty()) return nullptr;
  if (std::shared_ptr<Entry> entry = known(files)) return entry;
  auto entry = std::make_shared<Entry>();
  entry->files = files;
  entry->need = need_of(base(), files);
  entry->number = entries_.size() + 1;
  entries_.emplace(files, entry);
  return entry;
}

void Adapters::use(Entry& entry) {
  if (entry.loaded == nullptr) {
    try {
      const OpenFiles open(entry.files);
      entry.loaded = arch::load_adapter(base(), open.sources, kernels_);
    } catch (...) {
      ledger_.give_back(MemoryClass::kAdapters, entry.need.bytes);
      throw;
    }
  } else if (entry.n_users == 0) {
    ledger_.move(MemoryClass::kAdaptersCached, MemoryClass::kAdapters, entry.need.bytes);
  }
  ++entry.n_users;
}

void Adapters::release(Entry& entry) {
  BILLOW_CHECK(entry.n_users > 0);
  entry.last_use = ++clock_;
  if (--entry.n_users == 0)
    ledger_.move(MemoryClass::kAdapters, MemoryClass::kAdaptersCached, entry.need.bytes);
}

bool Adapters::drop_idle() {
  Entry* oldest = nullptr;
  for (const auto& [files, entry] : entries_) {
    const bool is_idle = entry->loaded != nullptr && entry->n_users == 0;
    if (is_idle && (oldest == nullptr || entry->last_use < oldest->last_use)) oldest = entry.get();
  }
  if (oldest == nullptr) return false;
  oldest->loaded.reset();
  ledger_.give_back(MemoryClass::kAdaptersCached, oldest->need.bytes);
  return true;
}

}  // namespace billow::engine
