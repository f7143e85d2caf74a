#include "engine/engine.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "arch/scratch.h"
#include "base/build_id.h"
#include "base/check.h"
#include "base/error.h"
#include "cpu/cores.h"
#include "engine/constraint_vocabulary.h"
#include "engine/load_model.h"
#include "engine/memory_need.h"
#include "engine/weights.h"

namespace billow::engine {
namespace {

size_t context_of(const gguf::File& file, const EngineOptions& options) {
  const std::string key =
      std::string(file.require_string("general.architecture")) + ".context_length";
  const size_t max = file.get_uint(key).value_or(0);
  return options.max_context == 0 ? max : std::min(max, options.max_context);
}

// Returns options for a file name and contents that identify the KV. The KV of given tokens depends
// on the model's file, the projector's file (tokens of pictures), the build, the instruction set
// and the type. `pictures` may be null.
kv::PrefixFileOptions sessions_of(const gguf::File& file, const PictureReader* pictures,
                                  const kernels::KernelTable& kernels,
                                  const EngineOptions& options) {
  std::string versions = file.versions();
  if (versions.empty() || build_id().empty()) return {};
  const std::string path = std::filesystem::absolute(file.path()).string();
  std::string of_one_file = path + "\n" + std::string(kernels.name) + "\n" +
                            std::to_string(static_cast<int>(options.kv_type)) + "\n";
  if (pictures != nullptr) {
    const gguf::File& projector = pictures->file_on_disk();
    if (projector.versions().empty()) return {};
    of_one_file += std::filesystem::absolute(projector.path()).string() + "\n";
    versions += projector.versions();
  }
  return {.folder = options.sessions.path,
          .max_bytes = options.sessions.max_bytes,
          .name = cache_name(of_one_file),
          .contents = of_one_file + versions + build_id() + "\n"};
}

// Returns the context plan of a sequence. Throws Error if the sizes are invalid, or if the answer
// may need a compaction that cannot keep the prompt.
context::ContextPlan context_plan_of(size_t n_prompt, const SequenceOptions& options,
                                     size_t max_context, const arch::ModelInfo& model) {
  const ContextOptions& wanted = options.context;
  const size_t top = wanted.cap(max_context);
  const bool rotates_by_grid = model.has_grid && !options.pictures.empty();
  const context::Ladder ladder =
      wanted.sizes.empty() ? context::Ladder(top) : context::Ladder(wanted.sizes, top);
  const bool can_shift = model.can_shift(ladder.top()) && !rotates_by_grid;
  context::ContextPlan context_plan = {ladder, context::possible_policy(wanted.policy, can_shift),
                                       wanted.compaction, n_prompt};
  context::check_anchor(context_plan, options.max_new_tokens);
  return context_plan;
}

// Returns null if there is no projector.
std::unique_ptr<PictureReader> load_picture_reader(const EngineOptions& options,
                                                   const arch::ModelInfo& text_model,
                                                   context::Ledger& ledger) {
  if (options.projector.empty()) return nullptr;
  return std::make_unique<PictureReader>(
      options.projector, text_model,
      options.kernels != nullptr ? *options.kernels
                                 : kernels::select_table(kernels::Work::kEncoder),
      PictureReaderOptions{.pack_weights = options.pack_weights,
                           .packed_cache = options.packed_cache,
                           .give_back = [&ledger](uint64_t bytes) {
                             ledger.give_back(context::MemoryClass::kScratch, bytes);
                           }});
}

bool guesses_with_head(const EngineOptions& options) {
  return options.draft_model.empty() && options.max_draft > 0;
}

// Returns null if there is neither a draft model nor a predicting head.
std::unique_ptr<DraftModel> load_draft_model(const EngineOptions& options, const gguf::File& target,
                                             const arch::Model& model,
                                             const kernels::KernelTable& kernels,
                                             const DraftModelOptions& draft_options) {
  if (guesses_with_head(options) && model.head() != nullptr)
    return std::make_unique<DraftModel>(*model.head(), kernels, draft_options);
  if (options.draft_model.empty() || options.max_draft == 0) return nullptr;
  return std::make_unique<DraftModel>(options.draft_model, target, kernels, draft_options);
}

}  // namespace

const char* finish_reason_name(FinishReason reason) noexcept {
  if (reason == FinishReason::kRepetition) return "repetition";
  if (reason == FinishReason::kRepeats) return "repeats";
  return reason == FinishReason::kStop ? "stop" : "length";
}

Engine::Engine(const std::string& path, const EngineOptions& options)
    : Engine(gguf::File::open(path), options) {}

Engine::Engine(gguf::File file, const EngineOptions& options)
    : ledger_(memory_budget(options)),
      file_(std::move(file)),
      max_context_(context_of(file_, options)),
      kernels_(options.kernels != nullptr ? options.kernels : &kernels::select_table()),
      team_(options.n_threads > 0 ? options.n_threads : cpu::usable_cores()),
      packed_(*kernels_, options.pack_weights ? arch::max_packed_bytes(file_) : 0,
              [this](std::span<const std::byte> bytes) { file_.release(bytes); }),
      packed_cache_(options.packed_cache),
      model_(load_model(file_, {.packed = options.pack_weights ? &packed_ : nullptr,
                                .matrices = &matrices_,
                                .with_head = guesses_with_head(options)})),
      adapters_(file_, matrices_, *kernels_, ledger_),
      default_adapters_(options.adapters),
      picture_reader_(load_picture_reader(options, model_->info(), ledger_)),
      n_batch_(rows_of_batch(options.n_batch, model_->info(), picture_reader_.get())),
      draft_model_(load_draft_model(options, file_, *model_, *kernels_,
                                    {.n_sequences = options.max_sequences,
                                     .n_threads = static_cast<size_t>(team_.size()),
                                     .max_context = max_context_,
                                     .kv_type = options.kv_type,
                                     .pack_weights = options.pack_weights,
                                     .packed_cache = options.packed_cache})),
      kv_(ledger_, model_->info().kv,
          {.n_sequences = options.max_sequences,
           .n_positions = max_context_,
           .n_batch = n_batch_,
           .type = options.kv_type,
           .n_draft_states = draft_states(options.max_draft),
           .other_groups = draft_model_ ? draft_model_->need().kv_groups : std::vector<kv::Group>(),
           .max_cached = options.max_cached,
           .sessions = sessions_of(file_, picture_reader_.get(), *kernels_, options),
           .drop_other =
               [this] {
                 return adapters_.drop_idle() ||
                        (picture_reader_ != nullptr && picture_reader_->drop_idle());
               },
           .other_cached_bytes =
               [this] { return picture_reader_ != nullptr ? picture_reader_->idle_bytes() : 0; }}),
      max_sequences_(options.max_sequences),
      asks_for_memory_(options.asks_for_memory),
      defers_trim_(options.defers_trim),
      speculation_({.max_draft = options.max_draft,
                    .is_eager = options.drafts_eagerly,
                    .evaluates_again = kv_.has_states()}),
      pacing_(options.max_pass_time),
      need_(need_with(0)),
      step_need_(need_),
      embeds_(kv_, model_->info().n_embd) {
  grant_weights(ledger_, file_, packed_);
  tokenizer_.emplace(load_weights(team_, packed_, packed_cache_, file_, kernels_->name,
                                  model_->info().n_vocab, options));
  if (picture_reader_) {
    grant_bytes(ledger_, picture_reader_->file(), picture_reader_->weight_bytes());
    picture_reader_->load_weights(team_);
  }
  if (!draft_model_) return;
  if (draft_model_->is_head()) {
    grant_bytes(ledger_, file_, draft_model_->need().weight_bytes);
    return;
  }
  DraftModel::Own& own = *draft_model_->own();
  grant_weights(ledger_, own.file, own.packed);
  (void)load_weights(team_, own.packed, own.packed_cache, own.file, kernels_->name,
                     draft_model_->n_vocab(), {});
}

context::MemoryNeed Engine::need_with(size_t adapter_rank) const {
  context::MemoryNeed need =
      memory_need(weight_bytes(file_, packed_), *model_, *kernels_, kv_.cache().layout(),
                  {.n_batch = n_batch_,
                   .n_sequences = max_sequences_,
                   .n_draft = speculation_.max_draft(),
                   .n_threads = static_cast<size_t>(team_.size()),
                   .max_context = max_context_,
                   .adapter_rank = adapter_rank});
  if (picture_reader_) need.weight_bytes += picture_reader_->weight_bytes();
  return draft_model_ ? context::with_draft(std::move(need), draft_model_->need()) : need;
}

void Engine::trim() {
  kv_.trim();
  if (draft_model_) draft_model_->cache().trim();
}

Engine::~Engine() {
  while (!running_.empty()) {
    const std::shared_ptr<Sequence> sequence = running_.back();
    end(*sequence, FinishReason::kStop);
  }
}

std::shared_ptr<const constraint::Vocabulary> Engine::vocabulary() const {
  const std::scoped_lock lock(vocabulary_mutex_);
  if (!vocabulary_) vocabulary_ = constraint_vocabulary(*tokenizer_);
  return vocabulary_;
}

void Engine::check_tokens(std::span<const int32_t> tokens) const {
  if (tokens.empty())
    throw Error(ErrorCode::kInvalidInput, "the prompt is empty; give at least one token");
  check_ids(tokens);
}

void Engine::check_ids(std::span<const int32_t> tokens, bool has_pictures) const {
  for (const int32_t token : tokens) {
    if (!tokenizer_->has(token) && !(has_pictures && token == kPictureToken)) {
      throw Error(ErrorCode::kInvalidInput, "token id " + std::to_string(token) +
                                                " is not in the vocabulary of " +
                                                std::to_string(tokenizer_->n_tokens()) + " tokens");
    }
  }
}

// Returns the pictures of a prompt and gives their tokens ids. Throws the Errors of start().
PlacedPictures Engine::place_pictures(std::vector<int32_t>& prompt,
                                      std::span<const std::shared_ptr<Picture>> pictures) const {
  if (pictures.empty()) {
    check_tokens(prompt);
    return {};
  }
  check_ids(prompt, true);
  for (const std::shared_ptr<Picture>& picture : pictures) {
    if (picture->embeddings == nullptr) {
      if (picture_reader_ == nullptr)
        throw Error(ErrorCode::kUnsupported, "the model has no projector for pictures");
      picture_reader_->encoder().check(picture->tiles);
    }
    for (const vision::Tile& tile : picture->tiles) {
      if (!model().sees_whole_pictures || tile.n_tokens() <= n_batch_) continue;
      throw Error(ErrorCode::kTooLarge, "a picture has " + std::to_string(tile.n_tokens()) +
                                            " tokens, but a pass has at most " +
                                            std::to_string(n_batch_));
    }
    BILLOW_CHECK(picture->embeddings == nullptr ||
                 picture->embeddings->size() ==
                     picture->n_tokens() * model().n_embd * (1 + model().n_deep));
  }
  return {prompt, pictures, model().has_grid || model().sees_whole_pictures};
}

std::shared_ptr<const Sequence> Engine::start(std::vector<int32_t> prompt,
                                              const SequenceOptions& options) {
  if (options.scores_prompt && !options.pictures.empty()) {
    throw Error(ErrorCode::kUnsupported,
                "log probabilities of a prompt with pictures are not supported");
  }
  const PlacedPictures pictures = place_pictures(prompt, options.pictures);
  check_ids(options.prediction);
  context::ContextPlan context_plan =
      context_plan_of(prompt.size(), options, max_context_, model());
  const size_t rung = context_plan.ladder.first(prompt.size());
  if (running_.size() == max_sequences_) {
    throw Error(ErrorCode::kTooLarge,
                std::to_string(max_sequences_) + " sequences are running, which is the limit");
  }
  SamplingOptions sampling = options.sampling;
  for (const int32_t token : tokenizer_->suppressed()) {
    sampling.logit_bias.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  const std::shared_ptr<Adapters::Entry> adapter = adapter_for(options.adapters);
  check_fits(context_plan, rung, adapter == nullptr ? 0 : adapter->need().bytes);
  Sampler sampler(sampling, tokenizer_->n_tokens(), prompt);
  auto sequence = std::make_shared<Sequence>(kv_.cache(), std::move(prompt), options,
                                             std::move(sampler), std::move(context_plan), rung);
  sequence->pictures_ = pictures;
  sequence->adapter_ = adapter;
  if (adapter != nullptr) sequence->context_.set_adapter(adapter->number());
  BILLOW_CHECK(options.salt <= kv::kMaxSalt);
  sequence->context_.set_salt(options.salt);
  running_.push_back(sequence);
  return sequence;
}

// Returns null if the sequence is not running.
std::shared_ptr<Sequence> Engine::running(const Sequence& sequence) const {
  const auto is_same = [&](const std::shared_ptr<Sequence>& one) { return one.get() == &sequence; };
  const auto found = std::ranges::find_if(running_, is_same);
  return found != running_.end() ? *found : nullptr;
}

std::shared_ptr<const Embedding> Engine::embed(std::vector<int32_t> tokens,
                                               const AdapterFiles& adapters, TextSender sender) {
  check_tokens(tokens);
  if (tokens.size() > max_context_) {
    throw Error(ErrorCode::kTooLarge, "the text has " + std::to_string(tokens.size()) +
                                          " tokens, but the context holds " +
                                          std::to_string(max_context_) + "; shorten it");
  }
  if (!pooling_) pooling_ = pooling_of_decoder(file_);
  const bool is_long = is_long_text(tokens.size());
  const std::shared_ptr<Adapters::Entry> adapter = adapter_for(adapters);
  auto embedding = std::make_shared<Embedding>(kv_.cache(), std::move(tokens), is_long, adapter);
  check_fits(embedding->context_plan(), embedding->tokens().size(),
             adapter == nullptr ? 0 : adapter->need().bytes);
  embeds_.add(embedding, std::move(sender));
  return embedding;
}

void Engine::finish(const Sequence& sequence, FinishReason reason) {
  if (const std::shared_ptr<Sequence> found = running(sequence)) end(*found, reason);
}

void Engine::hold(const Sequence& sequence, bool held) {
  if (const std::shared_ptr<Sequence> found = running(sequence)) found->held_ = held;
}

void Engine::end(Sequence& sequence, FinishReason reason) {
  sequence.finish_reason_ = reason;
  sequence.waiting_ = false;
  sequence.context_.settle_draft();
  // After a lack of memory or an error, nothing is cached: memory is short, or the KV may be wrong.
  if (reason != FinishReason::kNoMemory && reason != FinishReason::kFailed)
    kv_.insert(sequence.context_, sequence.tokens_, true);
  kv_.release_soon(sequence.context_);
  forget_draft(sequence);
  sequence.lease_.reset();
  sequence.pictures_ = {};
  sequence.options_.pictures.clear();
  if (!defers_trim_) trim();
  std::erase_if(running_, [&](const std::shared_ptr<Sequence>& candidate) {
    return candidate.get() == &sequence;
  });
  // Nobody calls step() again for a pass whose sequences are gone.
  if (running_.empty() && picture_reader_) picture_reader_->cancel();
}

}  // namespace billow::engine
