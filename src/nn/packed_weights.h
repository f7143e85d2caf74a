// Owns the packed form of a model's weights (quant/packing.h). Loading has two steps. First one
// thread adds the matrices. Then any number of threads pack them together, or a file with the
// packed forms is mapped instead. After that any thread may read them.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/address_space.h"
#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace billow::nn {

class PackedWeights {
 public:
  // Receives the bytes of weights that are packed and will hardly be read again; on any thread.
  using Release = std::function<void(std::span<const std::byte>)>;
  // Receives the number of packed bytes, of n_bytes(); on any thread, not always in order.
  using Progress = std::function<void(size_t n_made)>;

  // Reserves address space for `max_bytes` of packed weights, at least the sum of bytes_of().
  // Throws Error if this fails. `kernels` must outlive the calls of pack().
  PackedWeights(const kernels::KernelTable& kernels, size_t max_bytes, Release release);
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // Returns the bytes of the packed form of n_rows x n_cols; 0 for formats without a packed form.
  static size_t bytes_of(quant::Type type, size_t n_cols, size_t n_rows);

  // If the format of `weight` has a packed form, sets weight.packed to the place that pack() will
  // fill. `is_expert`: one of many matrices of a layer. REQUIRES: pack() was not called.
  void add(tensor::Tensor& weight, bool is_expert = false);

  // A range of the packed form, in bytes, and the NUMA node whose threads read its rows.
  struct NodeRange {
    static constexpr int kAny = -1;
    // Each range is a mapping of the system, which allows 65,530 by default (vm.max_map_count).
    static constexpr size_t kMax = 1 << 14;
    size_t begin = 0;
    size_t end = 0;
    int node = 0;  // kAny: threads of all nodes
  };
  // Returns the ranges of all added matrices in order, with whole huge pages. A member of a team
  // reads its share of the rows of each matrix (nn/task_order.h); member i is on node
  // node_of_members[i]. If there were more than NodeRange::kMax ranges, experts are on any node.
  std::vector<NodeRange> node_ranges(std::span<const int> node_of_members) const;
  // Asks the system to put the packed form on these nodes. Without a call, or without nodes, it is
  // spread over all nodes. REQUIRES: neither hold() nor pack() was called.
  void place(std::span<const int> node_of_members);

  // Takes the memory for all added matrices. pack() calls it if nobody has. Throws Error if the
  // system has no memory.
  void hold();
  // Packs all added matrices. Threads that call it at the same time share the work. The work is
  // complete when all of them have returned.
  void pack(const Progress& progress = {});

  // Maps the first n_bytes() of a file instead of packing. If the system refuses, returns false and
  // changes nothing. REQUIRES: neither hold() nor pack() was called.
  [[nodiscard]] bool show_file(int fd) noexcept { return space_.show_file(fd, used_); }
  // Undoes show_file(), so that pack() can be called.
  void hide_file() noexcept { space_.give_back(0, used_); }

  size_t n_bytes() const noexcept { return used_; }
  // REQUIRES: pack() or show_file().
  std::span<const std::byte> bytes() const noexcept { return {space_.data(), used_}; }
  // Returns a text with a line for each added matrix: type, shape and place. The same build
  // produces the same bytes from the same lines and the same file.
  std::string contents() const;
  // Returns the bytes of the added matrices in their file.
  size_t n_source_bytes() const noexcept;

 private:
  std::vector<NodeRange> node_ranges(std::span<const int> node_of_members,
                                     bool places_experts) const;
  // A matrix to pack.
  struct Job {
    tensor::Tensor weight;
    size_t begin = 0;  // offset of its packed form
    size_t strip_bytes = 0;
    size_t n_strips = 0;
    bool is_expert = false;
    size_t end() const noexcept { return begin + n_strips * strip_bytes; }
  };
  struct Scratch {
    std::vector<float> scales;
    std::vector<float> offsets;
  };
  void pack_piece(size_t begin, size_t end, Scratch& scratch) const;
  void pack_strips(const Job& job, size_t first, size_t last, Scratch& scratch) const;

  const kernels::KernelTable* kernels_;
  Release release_;
  AddressSpace space_;
  size_t used_ = 0;
  std::once_flag held_;
  std::vector<Job> jobs_;         // in the order of their offsets
  std::atomic<size_t> taken_{0};  // bytes of the packed form that a thread has begun to make
  std::atomic<size_t> made_{0};   // bytes of the packed form that are complete
};

}  // namespace billow::nn
