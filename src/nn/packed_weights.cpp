#include "nn/packed_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/error.h"
#include "cpu/numa.h"
#include "cpu/shares.h"
#include "nn/packing_scratch.h"
#include "quant/unpack.h"

namespace billow::nn {
namespace {

// Threads take work by huge pages of the packed form, so that the thread that fills a page also
// clears it. Two threads that touch a page at the same time would both clear it.
constexpr size_t kHugePage = AddressSpace::kHugePage;

constexpr size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }
constexpr size_t rounded_to(size_t n, size_t unit) { return (n + unit / 2) / unit * unit; }

}  // namespace

PackedWeights::PackedWeights(const kernels::KernelTable& kernels, size_t max_bytes, Release release)
    : kernels_(&kernels), release_(std::move(release)), space_(max_bytes, "weights") {
  cpu::spread_over_nodes(space_.data(), space_.size());
}

std::vector<PackedWeights::NodeRange> PackedWeights::node_ranges(
    std::span<const int> node_of_members) const {
  std::vector<NodeRange> ranges = node_ranges(node_of_members, true);
  return ranges.size() <= NodeRange::kMax ? ranges : node_ranges(node_of_members, false);
}

std::vector<PackedWeights::NodeRange> PackedWeights::node_ranges(
    std::span<const int> node_of_members, bool places_experts) const {
  std::vector<NodeRange> ranges;
  const size_t n_members = node_of_members.size();
  const auto add = [&](size_t end, int node) {
    const size_t begin = ranges.empty() ? 0 : ranges.back().end;
    if (end <= begin) return;
    if (!ranges.empty() && ranges.back().node == node) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end, node});
    }
  };
  for (const Job& job : jobs_) {
    if (job.is_expert && !places_experts && n_members > 0) {
      add(rounded_to(job.end(), kHugePage), NodeRange::kAny);
      continue;
    }
    const size_t n_units = (job.weight.n_rows + kUnitRows - 1) / kUnitRows;
    for (size_t member = 0; member < n_members; ++member) {
      const size_t last_unit = cpu::share_begin(n_units, member + 1, n_members);
      const size_t n_strips = std::min(job.n_strips, last_unit * kUnitRows / quant::kStripRows);
      add(rounded_to(job.begin + n_strips * job.strip_bytes, kHugePage), node_of_members[member]);
    }
  }
  if (!ranges.empty()) add(rounded_up(used_, kHugePage), ranges.back().node);
  return ranges;
}

void PackedWeights::place(std::span<const int> node_of_members) {
  for (const NodeRange& range : node_ranges(node_of_members))
    if (range.node != NodeRange::kAny)
      cpu::put_on_node(space_.data() + range.begin, range.end - range.begin, range.node);
}

void PackedWeights::hold() {
  std::call_once(held_, [this] {
    if (space_.hold(0, rounded_up(used_, kHugePage))) return;
    throw Error(ErrorCode::kOutOfMemory,
                "the system has no memory for " + format_byte_size(used_) + " of weights");
  });
}

size_t PackedWeights::bytes_of(quant::Type type, size_t n_cols, size_t n_rows) {
  return quant::row(type).packing.matrix_bytes(n_rows, n_cols);
}

void PackedWeights::add(tensor::Tensor& weight, bool is_expert) {
  const size_t n = bytes_of(weight.type, weight.n_cols, weight.n_rows);
  if (n == 0 || weight.packed != nullptr) return;
  BILLOW_CHECK(taken_.load(std::memory_order_relaxed) == 0);
  BILLOW_CHECK(used_ + n <= space_.size());
  jobs_.push_back({.weight = weight,
                   .begin = used_,
                   .strip_bytes = quant::row(weight.type).packing.strip_bytes(weight.n_cols),
                   .n_strips = (weight.n_rows + quant::kStripRows - 1) / quant::kStripRows,
                   .is_expert = is_expert});
  weight.packed = space_.data() + used_;
  used_ += n;
}

size_t PackedWeights::n_source_bytes() const noexcept {
  size_t sum = 0;
  for (const Job& job : jobs_) sum += job.weight.n_rows * job.weight.row_bytes();
  return sum;
}

std::string PackedWeights::contents() const {
  std::string lines;
  for (const Job& job : jobs_) {
    lines += std::string(quant::row(job.weight.type).name) + " " +
             std::to_string(job.weight.n_rows) + "x" + std::to_string(job.weight.n_cols) + " at " +
             std::to_string(job.begin) + "\n";
  }
  return lines;
}

void PackedWeights::pack(const Progress& progress) {
  hold();
  size_t max_columns = 0;
  for (const Job& job : jobs_) max_columns = std::max(max_columns, job.weight.n_cols);
  const size_t n_scales = quant::kStripRows * kernels::padded(max_columns) / quant::kScaleGroup;
  Scratch scratch{std::vector<float>(n_scales), std::vector<float>(n_scales)};
  for (;;) {
    const size_t begin = taken_.fetch_add(kHugePage, std::memory_order_relaxed);
    if (begin >= used_) return;
    const size_t end = std::min(begin + kHugePage, used_);
    pack_piece(begin, end, scratch);
    const size_t made = made_.fetch_add(end - begin, std::memory_order_relaxed) + end - begin;
    if (progress) progress(made);
  }
}

// Packs the strips that begin in [begin, end).
void PackedWeights::pack_piece(size_t begin, size_t end, Scratch& scratch) const {
  auto job = std::ranges::upper_bound(jobs_, begin, {}, &Job::end);
  for (; job != jobs_.end() && job->begin < end; ++job) {
    const auto strips_before = [&](size_t place) {
      if (place <= job->begin) return size_t{0};
      return std::min(job->n_strips,
                      (place - job->begin + job->strip_bytes - 1) / job->strip_bytes);
    };
    pack_strips(*job, strips_before(begin), strips_before(end), scratch);
  }
}

void PackedWeights::pack_strips(const Job& job, size_t first, size_t last, Scratch& scratch) const {
  const tensor::Tensor& weight = job.weight;
  const size_t row_bytes = weight.row_bytes();
  const auto pack_strip = kernels_->of(weight.type).pack_strip;
  for (size_t i = first; i < last; ++i) {
    const size_t row = i * quant::kStripRows;
    pack_strip({.weight = weight.data + row * row_bytes,
                .row_bytes = row_bytes,
                .n_rows = std::min(quant::kStripRows, weight.n_rows - row),
                .k = weight.n_cols,
                .scales = scratch.scales.data(),
                .offsets = scratch.offsets.data(),
                .out = space_.data() + job.begin + i * job.strip_bytes});
  }
  const size_t first_row = std::min(first * quant::kStripRows, weight.n_rows);
  const size_t last_row = std::min(last * quant::kStripRows, weight.n_rows);
  if (release_) release_({weight.data + first_row * row_bytes, (last_row - first_row) * row_bytes});
}

}  // namespace billow::nn
