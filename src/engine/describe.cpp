#include "engine/describe.h"

#include <algorithm>
#include <memory>

#include "arch/scratch.h"
#include "base/json.h"
#include "cpu/cores.h"
#include "engine/embed/encoder_model.h"
#include "engine/embedding.h"
#include "engine/engine.h"
#include "nn/packed_weights.h"

namespace billow::engine {
namespace {

size_t threads_of(const DescribeOptions& options) {
  return static_cast<size_t>(options.n_threads > 0 ? options.n_threads : cpu::usable_cores());
}

// Of all models alike. `packed` lists the matrices that are to be packed, which tells their size.
Description described(const gguf::File& file, const DescribeOptions& options,
                      const arch::ModelInfo& model, const nn::PackedWeights& packed) {
  const size_t most = model.max_context;
  return {.model = model,
          .layout = kv::Layout(model.kv, options.kv_type),
          .max_context = options.max_context == 0 ? most : std::min(most, options.max_context),
          .file_bytes = file.n_bytes(),
          .mapped_bytes = file.n_bytes() - packed.n_source_bytes(),
          .packed_bytes = packed.n_bytes()};
}

Description describe_encoder(const gguf::File& file, const DescribeOptions& options) {
  const kernels::KernelTable& kernels = kernels::select_table(kernels::Work::kTexts);
  nn::PackedWeights packed(kernels, arch::most_packed_bytes(file), {});
  const std::unique_ptr<arch::Encoder> encoder = arch::load_encoder(file, {.packed = &packed});
  Description out = described(file, options, encoder->info(), packed);
  out.scratch_bytes =
      passes_scratch_bytes(*encoder, kernels, resolve_sizes(options.embed, out.max_context),
                           out.max_context, threads_of(options), packed.n_bytes() != 0);
  out.pooling = pooling_name(pooling_of_encoder(file));
  return out;
}

}  // namespace

uint64_t scratch_bytes(const gguf::File& file, const DescribeOptions& options, size_t n_positions) {
  if (arch::is_encoder(file)) return describe_encoder(file, options).scratch_bytes;
  const size_t n_batch = EngineOptions{}.n_batch;
  return arch::most_scratch_bytes(file, kernels::select_table(),
                                  {.n_rows = n_batch,
                                   .n_logit_rows = options.n_parallel,
                                   .n_hidden_rows = stated_pooling(file).empty() ? 0 : n_batch,
                                   .n_positions = n_positions,
                                   .n_threads = threads_of(options)});
}

Description describe(const gguf::File& file, const DescribeOptions& options) {
  if (arch::is_encoder(file)) return describe_encoder(file, options);
  nn::PackedWeights packed(kernels::select_table(), arch::most_packed_bytes(file), {});
  const std::unique_ptr<arch::Model> model = arch::load_model(file, {.packed = &packed});
  Description out = described(file, options, model->info(), packed);
  out.scratch_bytes = scratch_bytes(file, options, out.max_context);
  out.pooling = stated_pooling(file);
  return out;
}

Json description_json(const Description& description) {
  Json groups = Json::array();
  for (const kv::Group& group : description.layout.groups) {
    groups.push_back({{"bytes_per_position", group.block_bytes / kv::kBlockPositions},
                      {"window", group.window}});
  }
  Json out = {{"architecture", description.model.architecture},
              {"max_context", description.max_context},
              {"weight_bytes", description.weight_bytes()},
              {"scratch_bytes", description.scratch_bytes},
              {"kv_groups", std::move(groups)},
              {"embedding_length", description.model.n_embd},
              {"is_embedding", !description.pooling.empty()}};
  if (!description.pooling.empty()) out["pooling"] = description.pooling;
  return out;
}

}  // namespace billow::engine
