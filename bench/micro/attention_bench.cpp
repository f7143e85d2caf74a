// Measures nn::attention as in decoding and prefilling, with the shapes of small models. KV has the
// engine's layout. Consecutive calls use the KV of different layers, like a pass.
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "arch/decoder/pass.h"
#include "benchmarks.h"
#include "kv/cache.h"
#include "nn/attention.h"

namespace billow::bench {
namespace {

struct Heads {
  const char* name;
  uint32_t n_layers;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t length;
};

constexpr Heads kHeads[] = {
    {"smollm2", 30, 9, 3, 64}, {"qwen", 24, 14, 2, 64}, {"gemma3", 18, 4, 1, 256}};

struct Work {
  const char* name;
  size_t n_rows;
  size_t depth;  // positions before the rows
};

constexpr Work kWorks[] = {{"decode@128", 1, 128},
                           {"decode@1024", 1, 1024},
                           {"decode@4096", 1, 4096},
                           {"prefill512", 512, 0},
                           {"prefill512@4096", 512, 4096}};

std::vector<float> gaussian(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

// One sequence with KV in all layers at all positions.
class Sequence {
 public:
  Sequence(Rig& rig, const Heads& heads, size_t n_positions)
      : cache_(model(heads).kv, n_positions + kv::kBlockPositions), table_(cache_) {
    if (!table_.grow(n_positions)) throw std::bad_alloc();
    const size_t width = size_t{heads.n_kv_heads} * heads.length;
    std::vector<float> values = gaussian(n_positions * width);
    const tensor::Matrix kv{values.data(), n_positions, width};
    const Rows rows(table_, 0, n_positions);
    const nn::Compute compute = rig.compute();
    const arch::Batch batch = rows.batch();
    const arch::ModelInfo info = model(heads);
    const arch::Pass pass(compute, &cache_, info, batch, {});
    for (size_t layer = 0; layer < heads.n_layers; ++layer)
      nn::store_kv(compute, pass.layer(layer), pass.rows(layer), kv, kv);
  }

  static arch::ModelInfo model(const Heads& heads) {
    arch::ModelInfo info;
    info.kv.assign(heads.n_layers, {heads.n_kv_heads, heads.length, heads.length, 0});
    return info;
  }

  struct Rows {
    Rows(const kv::BlockTable& table, size_t first, size_t n)
        : positions(n), sequences(n, 0), tables{&table} {
      std::iota(positions.begin(), positions.end(), static_cast<uint32_t>(first));
    }
    arch::Batch batch() const { return {{}, positions, sequences, tables, {}}; }
    std::vector<uint32_t> positions;
    std::vector<uint32_t> sequences;
    std::vector<const kv::BlockTable*> tables;
  };

  kv::Cache& cache() { return cache_; }
  const kv::BlockTable& table() const { return table_; }
  double position_bytes(const Heads& heads) const {  // per layer
    return static_cast<double>(cache_.layout().groups[0].block_bytes) /
           (kv::kBlockPositions * heads.n_layers);
  }

 private:
  kv::Cache cache_;
  kv::BlockTable table_;
};

void run(benchmark::State& state, Rig& rig, const Heads& heads, const Work& work) {
  Sequence sequence(rig, heads, work.depth + work.n_rows);
  const Sequence::Rows rows(sequence.table(), work.depth, work.n_rows);
  const nn::Compute compute = rig.compute();
  const arch::Batch batch = rows.batch();
  const arch::ModelInfo model = Sequence::model(heads);
  const arch::Pass pass(compute, &sequence.cache(), model, batch, {});
  const size_t width = size_t{heads.n_heads} * heads.length;
  std::vector<float> q = gaussian(work.n_rows * width);
  std::vector<float> out(q.size());
  size_t i = 0;
  const Clock::time_point start = Clock::now();
  for (auto _ : state) {
    const size_t layer = i++ % heads.n_layers;
    nn::attention(compute, pass.layer(layer), pass.rows(layer),
                  {.q = {q.data(), work.n_rows, width}}, {.factor = 0.125f},
                  {out.data(), work.n_rows, width});
  }
  const double seconds = seconds_each(state, start);
  // Each row multiplies its query by the visible keys, and its weights by the values.
  const auto n = static_cast<double>(work.n_rows);
  const double n_seen = n * static_cast<double>(work.depth) + n * (n + 1) / 2;
  const Peaks& peaks = rig.peaks();
  count(state, seconds, peaks, peaks.i16_macs, 2 * n_seen * static_cast<double>(width),
        static_cast<double>(work.depth + work.n_rows) * sequence.position_bytes(heads));
}

}  // namespace

void add_attention_benchmarks(std::span<const NamedRig> rigs) {
  for (const Heads& heads : kHeads) {
    for (const Work& work : kWorks) {
      for (const NamedRig& named : rigs) {
        const std::string name =
            std::string("attention/") + heads.name + "/" + work.name + "/" + named.name;
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&heads, &work, rig = named.rig](benchmark::State& state) {
                                       run(state, *rig, heads, work);
                                     })
            ->UseRealTime()
            ->MinTime(0.05)
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace billow::bench
