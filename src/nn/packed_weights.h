// Owns the packed form of a model's weights (quant/packing.h). Loading has two steps: one thread
// adds the matrices, then any number of threads make the packed forms together, or a file that has
// them is shown in their place. After that any thread may read them.
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
  // Called with the bytes of weights that are packed and will hardly be read again; by any thread.
  using Release = std::function<void(std::span<const std::byte>)>;
  // Called with how many bytes of n_bytes() are made; by any thread, not always in order.
  using Progress = std::function<void(size_t n_made)>;

  // Address space for `max_bytes` of packed weights (bytes_of() of all of them, each rounded up to
  // 64). Throws Error when it cannot be had. `kernels` must outlive the calls of pack().
  PackedWeights(const kernels::KernelTable& kernels, size_t max_bytes, Release release);
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // What the packed form of n_rows x n_cols takes; 0 for formats that are not packed.
  static size_t bytes_of(quant::Type type, size_t n_cols, size_t n_rows);

  // Sets weight.packed, where its format has a packed form, to where pack() will make it. REQUIRES:
  // pack() has not been called.
  void add(tensor::Tensor& weight);

  // Takes the memory for all that was added; pack() does it where nobody has. Throws Error when the
  // system has none.
  void hold();
  // Makes all that was added. Threads that call it at the same time share the work; all is made
  // when all of them have returned.
  void pack(const Progress& progress = {});

  // Shows the first n_bytes() of a file in place of what pack() would make. False, and nothing has
  // changed, when the system refuses. REQUIRES: neither hold() nor pack() was called.
  [[nodiscard]] bool show_file(int fd) noexcept { return space_.show_file(fd, used_); }
  // Undoes show_file(): pack() can be called.
  void hide_file() noexcept { space_.give_back(0, used_); }

  size_t n_bytes() const noexcept { return used_; }
  // REQUIRES: pack() or show_file().
  std::span<const std::byte> bytes() const noexcept { return {space_.data(), used_}; }
  // What was added, in words: a line for each matrix with its type, its shape and its place. The
  // same build makes the same bytes of the same lines and the same file.
  std::string contents() const;
  size_t n_source_bytes() const noexcept;  // of what was added, in its file

 private:
  // A matrix to pack.
  struct Job {
    tensor::Tensor weight;
    size_t begin = 0;  // of its packed form
    size_t strip_bytes = 0;
    size_t n_strips = 0;
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
  std::vector<Job> jobs_;         // in the order of their places
  std::atomic<size_t> taken_{0};  // bytes of the packed form whose making has begun
  std::atomic<size_t> made_{0};   // and has ended
};

}  // namespace billow::nn
