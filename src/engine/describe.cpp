#include "engine/describe.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cpu/cores.h"
#include "engine/draft_model.h"
#include "engine/embed/encoder_model.h"
#include "engine/embedding.h"
#include "engine/engine.h"
#include "engine/load_model.h"
#include "engine/memory_need.h"
#include "engine/picture_reader.h"
#include "nn/packed_weights.h"

namespace billow::engine {
namespace {

size_t threads_of(const DescribeOptions& options) {
  return static_cast<size_t>(options.n_threads > 0 ? options.n_threads : cpu::usable_cores());
}

// Returns the fields that all models have. `packed` lists the matrices to pack, from which their
// size follows.
Description described(const gguf::File& file, const DescribeOptions& options,
                      const arch::ModelInfo& model, const nn::PackedWeights& packed) {
  const size_t max = model.max_context;
  return {.model = model,
          .layout = kv::Layout(model.kv, options.kv_type, draft_states(options.max_draft)),
          .max_context = options.max_context == 0 ? max : std::min(max, options.max_context),
          .file_bytes = file.n_bytes(),
          .mapped_bytes = file.n_bytes() - packed.n_source_bytes(),
          .packed_bytes = packed.n_bytes()};
}

arch::AdapterNeed adapter_need_of(const arch::AdapterBase& base, const DescribeOptions& options) {
  return options.adapters.empty() ? arch::AdapterNeed{} : need_of(base, options.adapters);
}

Description describe_encoder(const gguf::File& file, const DescribeOptions& options) {
  const kernels::KernelTable& kernels = kernels::select_table(kernels::Work::kEncoder);
  nn::PackedWeights packed(kernels, arch::max_packed_bytes(file), {});
  std::vector<tensor::Tensor> matrices;
  const std::unique_ptr<arch::Encoder> encoder =
      load_encoder(file, {.packed = &packed, .matrices = &matrices});
  const arch::AdapterNeed adapters = adapter_need_of({file, matrices}, options);
  Description out = described(file, options, encoder->info(), packed);
  const uint64_t scratch =
      passes_scratch_bytes(*encoder, kernels, resolve_sizes(options.embed, out.max_context),
                           out.max_context, threads_of(options), adapters.rank);
  out.adapter_bytes = adapters.bytes;
  out.memory = {.weight_bytes = weight_bytes(file, packed),
                .scratch = {{out.max_context, scratch}}};
  out.pooling = pooling_name(pooling_of_encoder(file));
  return out;
}

}  // namespace

Description describe(const gguf::File& file, const DescribeOptions& options) {
  if (arch::is_encoder(file)) {
    if (!options.draft_model.empty())
      throw Error(
          ErrorCode::kUnsupported,
          file.path() + ": an embedding model generates no text, so it cannot have a draft model");
    return describe_encoder(file, options);
  }
  const kernels::KernelTable& kernels = kernels::select_table();
  nn::PackedWeights packed(kernels, arch::max_packed_bytes(file), {});
  std::vector<tensor::Tensor> matrices;
  const bool with_head = options.draft_model.empty() && options.max_draft > 0;
  const std::unique_ptr<arch::Model> model =
      load_model(file, {.packed = &packed, .matrices = &matrices, .with_head = with_head});
  Description out = described(file, options, model->info(), packed);
  const arch::AdapterNeed adapters = adapter_need_of({file, matrices}, options);
  out.adapter_bytes = adapters.bytes;
  out.pooling = stated_pooling(file);
  std::unique_ptr<PictureReader> pictures;
  if (!options.projector.empty()) {
    pictures = std::make_unique<PictureReader>(options.projector, model->info(),
                                               kernels::select_table(kernels::Work::kEncoder),
                                               PictureReaderOptions());
    out.projector_bytes = pictures->weight_bytes();
    out.encodes_pictures = true;
  }
  out.memory =
      memory_need(weight_bytes(file, packed), *model, kernels, out.layout,
                  {.n_batch = rows_of_batch(EngineOptions{}.n_batch, model->info(), pictures.get()),
                   .n_sequences = sequences_of(file, options.n_parallel),
                   .n_draft = options.max_draft,
                   .n_threads = threads_of(options),
                   .max_context = out.max_context,
                   .adapter_rank = adapters.rank});
  out.memory.weight_bytes += out.projector_bytes;
  const DraftModelOptions draft_options = {.n_sequences = sequences_of(file, options.n_parallel),
                                           .n_threads = threads_of(options),
                                           .max_context = out.max_context,
                                           .kv_type = options.kv_type};
  if (model->head() != nullptr)
    out.memory = context::with_draft(std::move(out.memory),
                                     head_need(*model->head(), kernels, draft_options));
  if (options.draft_model.empty() || options.max_draft == 0) return out;
  const gguf::File draft = gguf::File::open(options.draft_model);
  check_draft_vocabulary(draft, file);
  const context::MemoryNeed draft_memory = draft_need(draft, kernels, draft_options);
  out.draft_bytes = draft_memory.weight_bytes;
  out.memory = context::with_draft(std::move(out.memory), draft_memory);
  return out;
}

Json memory_need_json(const context::MemoryNeed& need) {
  Json scratch = Json::array();
  for (const context::ScratchStep& step : need.scratch)
    scratch.push_back({{"positions", step.n_positions}, {"bytes", step.bytes}});
  Json groups = Json::array();
  for (const context::KvGroup& group : need.kv_groups) {
    groups.push_back({{"block_bytes", group.block_bytes},
                      {"window", group.window},
                      {"state_stride", group.state_stride},
                      {"draft_states", group.n_draft_states}});
  }
  return {{"weight_bytes", need.weight_bytes},
          {"scratch", std::move(scratch)},
          {"kv_groups", std::move(groups)},
          {"block_positions", need.block_positions},
          {"batch", need.n_batch}};
}

Json description_json(const Description& description) {
  Json out = {{"architecture", description.model.architecture},
              {"max_context", description.max_context},
              {"memory", memory_need_json(description.memory)},
              {"embedding_length", description.model.n_embd},
              {"is_embedding", !description.pooling.empty()}};
  if (description.adapter_bytes != 0) out["adapter_bytes"] = description.adapter_bytes;
  if (description.encodes_pictures) out["encodes_pictures"] = true;
  if (!description.pooling.empty()) out["pooling"] = description.pooling;
  return out;
}

}  // namespace billow::engine
