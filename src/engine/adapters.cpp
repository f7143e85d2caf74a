#include "engine/adapters.h"

#include <utility>

#include "base/check.h"

namespace billow::engine {
namespace {

using context::MemoryClass;

// The open files, and their form for arch::.
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
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(files);
  return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<Adapters::Entry> Adapters::find(const AdapterFiles& files) {
  if (files.empty()) return nullptr;
  if (std::shared_ptr<Entry> entry = known(files)) return entry;
  auto entry = std::make_shared<Entry>();
  entry->files_ = files;
  entry->need_ = need_of(base(), files);
  const std::scoped_lock lock(mutex_);
  entry->number_ = entries_.size() + 1;
  // Another thread may have inserted it meanwhile.
  return entries_.emplace(files, entry).first->second;
}

uint64_t Adapters::wanted_bytes(const Entry& entry) const {
  const std::scoped_lock lock(mutex_);
  return entry.n_users_ == 0 ? entry.need().bytes : 0;
}

// Returns false if the entry is not loaded.
bool Adapters::add_user(Entry& entry) {
  const std::scoped_lock lock(mutex_);
  if (entry.loaded_ == nullptr) return false;
  if (entry.n_users_++ == 0)
    ledger_.move(MemoryClass::kAdaptersCached, MemoryClass::kAdapters, entry.need().bytes);
  return true;
}

Adapters::Lease Adapters::use(const std::shared_ptr<Entry>& entry, const Grant& grant) {
  if (add_user(*entry)) return {*this, entry};
  const std::scoped_lock loading(loading_);
  if (add_user(*entry)) return {*this, entry};
  if (!grant(entry->need().bytes)) return {};
  try {
    const OpenFiles open(entry->files_);
    auto loaded = arch::load_adapter(base(), open.sources, kernels_);
    const std::scoped_lock lock(mutex_);
    entry->loaded_ = std::move(loaded);
    entry->n_users_ = 1;
  } catch (...) {
    ledger_.give_back(MemoryClass::kAdapters, entry->need().bytes);
    throw;
  }
  return {*this, entry};
}

void Adapters::release(Entry& entry) noexcept {
  const std::scoped_lock lock(mutex_);
  BILLOW_CHECK(entry.n_users_ > 0);
  entry.last_use_ = ++clock_;
  if (--entry.n_users_ == 0)
    ledger_.move(MemoryClass::kAdapters, MemoryClass::kAdaptersCached, entry.need().bytes);
}

bool Adapters::drop_idle() {
  const std::scoped_lock lock(mutex_);
  Entry* oldest = nullptr;
  for (const auto& [files, entry] : entries_) {
    const bool is_idle = entry->loaded_ != nullptr && entry->n_users_ == 0;
    if (is_idle && (oldest == nullptr || entry->last_use_ < oldest->last_use_))
      oldest = entry.get();
  }
  if (oldest == nullptr) return false;
  oldest->loaded_.reset();
  ledger_.give_back(MemoryClass::kAdaptersCached, oldest->need().bytes);
  evicted_bytes_ += oldest->need().bytes;
  return true;
}

}  // namespace billow::engine
