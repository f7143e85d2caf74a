// Stores the packed form of a model's weights on disk, so that a later load need not pack the
// weights. Processes that serve the same model share the memory of the file. A cache file is valid
// for one version of the model's file, one build of the program and one kernel table; other cache
// files are replaced. One thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/cache_folder.h"
#include "base/regular_file.h"
#include "gguf/file.h"
#include "nn/packed_weights.h"

namespace billow::engine {

struct PackedCacheOptions {
  CacheFolderOptions folder = {};
  // For smaller models, packing is as fast as reading.
  uint64_t min_bytes = uint64_t{16} << 20;
};

class PackedCache {
 public:
  // Disables itself if the folder is not enabled, the model is in memory only, the program has no
  // build id, or the machine has several NUMA nodes. With several nodes, weights are distributed
  // over the nodes, but pages of files are not.
  explicit PackedCache(const PackedCacheOptions& options);
  ~PackedCache();  // removes an unfinished file
  PackedCache(const PackedCache&) = delete;
  PackedCache& operator=(const PackedCache&) = delete;

  // A packed form that was found. Several threads can call check() at the same time.
  class Found {
   public:
    // Verifies the checksums of pieces until no piece is left. Does nothing if the file was
    // verified before.
    void check(const nn::PackedWeights::Progress& progress);
    // Returns whether all bytes are right. REQUIRES: all calls of check() have returned.
    bool is_good() const noexcept { return is_good_.load(std::memory_order_relaxed); }

   private:
    friend class PackedCache;
    Found(RegularFile file, std::span<const std::byte> bytes, std::vector<uint64_t> sums)
        : file_(std::move(file)), bytes_(bytes), sums_(std::move(sums)) {}
    RegularFile file_;
    std::span<const std::byte> bytes_;
    std::vector<uint64_t> sums_;  // of each piece; empty: the file was verified before
    std::atomic<size_t> next_{0};
    std::atomic<size_t> n_checked_{0};  // bytes
    std::atomic<bool> is_good_{true};
  };

  // Maps the packed form of these weights into memory. Returns null if there is none; then the
  // weights must be packed. `model` is the file of the weights, `kernels` the name of the kernel
  // table.
  std::unique_ptr<Found> find(const gguf::File& model, std::string_view kernels,
                              nn::PackedWeights& weights) const;
  // Returns whether the packed form can be used, after check(). Removes and unmaps a damaged one.
  bool accept(Found& found, nn::PackedWeights& weights) const;
  // Writes the packed form in the background, on a thread of low priority. The weights must outlive
  // this object. Errors are logged.
  void save(const gguf::File& model, std::string_view kernels, const nn::PackedWeights& weights);
  // Waits until save() has ended.
  void wait();

 private:
  // Identifies the packed form.
  struct Key {
    std::string name;  // of the file in the folder
    std::string text;  // everything that the bytes depend on
  };
  Key key_of(const gguf::File& model, std::string_view kernels,
             const nn::PackedWeights& weights) const;
  bool keeps(const gguf::File& model, const nn::PackedWeights& weights) const;
  void write(const Key& key, std::span<const std::byte> bytes, const std::stop_token& stop) const;

  CacheFolder folder_;
  uint64_t min_bytes_;
  bool is_enabled_;
  std::jthread writer_;
};

}  // namespace billow::engine
