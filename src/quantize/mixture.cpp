#include "quantize/mixture.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "gguf/tensor_type.h"
#include "quantize/encode.h"

namespace billow::quantize {
namespace {

using quant::Type;
using enum quant::Type;

constexpr size_t kMaxNameForPatterns = 1024;  // std::regex recurses more for longer names

// Returns whether a tensor may change its type at all.
bool may_change(const Tensor& tensor, const ModelFacts& facts) noexcept {
  const bool is_matrix = tensor.shape[1] > 1 || tensor.shape[2] > 1 || tensor.shape[3] > 1;
  return is_matrix && !is_kept(tensor.name, facts.architecture);
}

// The fallback of a type for rows that are not a multiple of its group length.
struct Narrower {
  Type type;
  Type instead;
};
constexpr Narrower kNarrower[] = {
    {kIQ1_S, kIQ4_NL}, {kIQ1_M, kIQ4_NL},   {kIQ2_XXS, kIQ4_NL}, {kIQ2_XS, kIQ4_NL},
    {kIQ2_S, kIQ4_NL}, {kIQ3_XXS, kIQ4_NL}, {kIQ3_S, kIQ4_NL},   {kIQ4_XS, kIQ4_NL},
    {kQ2_K, kQ4_0},    {kQ3_K, kQ4_0},      {kTQ1_0, kQ4_0},     {kTQ2_0, kQ4_0},
    {kQ2_0, kQ4_0},    {kQ4_K, kQ5_0},      {kQ5_K, kQ5_1},      {kQ6_K, kQ8_0},
};

// Types whose result is useless without an importance matrix.
constexpr Type kNeedImportance[] = {kIQ3_XXS, kIQ2_XXS, kIQ2_XS, kIQ2_S, kIQ1_M, kIQ1_S};

bool is_float(Type type) noexcept { return type == kF32 || type == kF16 || type == kBF16; }

bool divides(Type type, uint64_t row_len) noexcept {
  return row_len % quant::row(type).group_len == 0;
}

// Returns the type if its groups divide the row, else its fallback, else F16. Returns nullopt if
// the type has no fallback.
std::optional<Type> fitting(Type type, uint64_t row_len) noexcept {
  constexpr uint32_t kSmallGroup = 32;
  if (divides(type, row_len)) return type;
  const auto* row = std::ranges::find(kNarrower, type, &Narrower::type);
  if (row != std::end(kNarrower)) return divides(row->instead, row_len) ? row->instead : kF16;
  return quant::row(type).group_len <= kSmallGroup ? std::optional(kF16) : std::nullopt;
}

// Returns N of a name that begins with "blk.N.", or -1 for other names.
int64_t block_of(std::string_view name) noexcept {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  const char* begin = name.data() + kPrefix.size();
  int32_t block = -1;
  const auto read = std::from_chars(begin, name.data() + name.size(), block);
  if (read.ec != std::errc() || read.ptr == name.data() + name.size() || *read.ptr != '.')
    return -1;
  return block;
}

// Large models: their value matrices get more bits.
struct LargeModel {
  std::string_view architecture;
  uint64_t n_blocks;
  bool grouped_heads;  // only if the model has fewer key heads than query heads
};
constexpr LargeModel kLargeModels[] = {
    {"llama", 80, true}, {"qwen2", 80, false}, {"deci", 80, false},
    {"olmo", 80, false}, {"jais2", 68, false},
};

bool is_large(const ModelFacts& facts) noexcept {
  return std::ranges::any_of(kLargeModels, [&](const LargeModel& row) {
    return facts.architecture == row.architecture && facts.n_blocks == row.n_blocks &&
           (!row.grouped_heads || facts.n_heads != facts.n_kv_heads);
  });
}

// Chooses types, one tensor after the other in the order of the new file, because rules count the
// tensors of a class.
class Chooser {
 public:
  Chooser(const ModelFacts& facts, std::span<const Tensor> tensors, const MixtureOptions& options)
      : facts_(facts), options_(options), file_type_(*options.file_type) {
    for (const Tensor& tensor : tensors) {
      const Class tensor_class = class_of(tensor.name);
      if (tensor_class == Class::kValue) ++n_values_;
      if (tensor_class == Class::kOutput) tied_ = false;
    }
  }

  struct Choice {
    Type type;
    Reason reason;
  };
  // REQUIRES: the tensor may change.
  Choice choose(const Tensor& tensor) {
    const Class tensor_class = class_of(tensor.name);
    const TypeOfPattern* pattern = pattern_of(tensor.name);
    if (options_.embedding_type && tensor_class == Class::kEmbedding &&
        !(pattern != nullptr && tensor.name == "per_layer_token_embd.weight")) {
      return {*options_.embedding_type, Reason::kChosenForClass};
    }
    if (options_.output_type && tensor_class == Class::kOutput) {
      return {*options_.output_type, Reason::kChosenForClass};
    }
    if (is_float(file_type_.base)) return {file_type_.base, Reason::kBase};
    Choice choice = {file_type_.base, Reason::kBase};
    if (pattern != nullptr) {
      choice = {pattern->type, Reason::kPattern};
    } else if (!options_.pure) {
      choice.type = mixed(tensor, tensor_class);
      if (choice.type != file_type_.base) choice.reason = Reason::kMixture;
    }
    const auto narrow = fitting(choice.type, tensor.shape[0]);
    return !narrow || *narrow == choice.type ? choice : Choice{*narrow, Reason::kWidth};
  }

 private:
  const TypeOfPattern* pattern_of(std::string_view name) const {
    for (const TypeOfPattern& row : options_.patterns) {
      if (std::regex_search(name.begin(), name.end(), row.pattern)) return &row;
    }
    return nullptr;
  }

  Type mixed(const Tensor& tensor, Class tensor_class) {
    if (is_fine(tensor.name, facts_.architecture)) return kQ8_0;
    if (tensor_class == Class::kOutput || (tied_ && tensor_class == Class::kEmbedding)) {
      if (options_.output_type) return *options_.output_type;
      const bool odd = !divides(file_type_.base, tensor.shape[0]);
      return odd || is_falcon() ? kQ8_0 : file_type_.output;
    }
    if (file_type_.experts_only) {
      const bool is_expert = tensor_class == Class::kUp || tensor_class == Class::kGate ||
                             tensor_class == Class::kDown;
      const bool stacked = tensor.shape[2] > 1;
      return stacked && (facts_.architecture != "bailingmoe3" || is_expert) ? file_type_.base
                                                                            : file_type_.output;
    }
    const Place place = place_of(tensor, tensor_class);
    Type type = file_type_.base;
    for (const Rule& rule : file_type_.rules) {
      if (rule.tensor_class != tensor_class || !is_for_us(rule) || !holds(rule.when, place)) {
        continue;
      }
      type = rule.type;
      break;
    }
    if (file_type_.two_bit) return type;
    if (tensor_class == Class::kValue && is_large(facts_) && (type == kQ3_K || type == kQ4_K)) {
      type = kQ5_K;
    }
    const bool narrow_head = tensor_class == Class::kValue || tensor_class == Class::kKey;
    return narrow_head && facts_.n_experts == 8 ? kQ8_0 : type;
  }

  struct Place {
    int64_t i;
    int64_t n;
  };
  Place place_of(const Tensor& tensor, Class tensor_class) {
    const int64_t count = n_met_[static_cast<size_t>(tensor_class)]++;
    if (tensor_class == Class::kValue) return {count, n_values_};
    const auto n_blocks = static_cast<int64_t>(facts_.n_blocks);
    const bool is_feed_forward =
        tensor_class == Class::kUp || tensor_class == Class::kGate || tensor_class == Class::kDown;
    if (!is_feed_forward || file_type_.two_bit || facts_.n_experts <= 1) return {count, n_blocks};
    // Each expert may be a separate tensor, so the block number is the place.
    const int64_t block = block_of(tensor.name);
    if (block < 0 || block >= n_blocks) {
      throw Error(ErrorCode::kUnsupported, "tensor '" + std::string(tensor.name) +
                                               "' is outside the model's " +
                                               std::to_string(n_blocks) + " blocks");
    }
    return {block, n_blocks};
  }

  bool is_falcon() const noexcept { return facts_.architecture == "falcon"; }

  bool is_for_us(const Rule& rule) const noexcept {
    return rule.models == For::kAll || (rule.models == For::kFalcon) == is_falcon();
  }

  bool holds(When when, const Place& place) const {
    const auto [i, n] = place;
    const bool first_eighth = i < n / 8;
    const bool more = first_eighth || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    const bool importance = options_.has_importance != nullptr;
    const bool gqa4 = facts_.n_kv_heads != 0 && facts_.n_heads / facts_.n_kv_heads >= 4;
    switch (when) {
      case When::kAlways:
        return true;
      case When::kFirst2:
        return i < 2;
      case When::kFirst4:
        return i < 4;
      case When::kFirstSixteenth:
        return i < n / 16;
      case When::kFirstEighth:
        return first_eighth;
      case When::kMiddle:
        return !first_eighth && i < 7 * n / 8;
      case When::kMore:
        return more;
      case When::kGqa4:
        return gqa4;
      case When::kGqa4OrExperts4:
        return gqa4 || facts_.n_experts >= 4;
      case When::kExperts8:
        return facts_.n_experts == 8;
      case When::kExperts8AndMore:
        return facts_.n_experts == 8 && more;
      case When::kNoImportance:
        return !importance;
      case When::kNoImportanceFirstEighth:
        return !importance && first_eighth;
      case When::kImportanceFirstEighth:
        return importance && first_eighth;
    }
    return false;
  }

  const ModelFacts& facts_;
  const MixtureOptions& options_;
  const FileType& file_type_;
  bool tied_ = true;
  int64_t n_values_ = 0;
  int64_t n_met_[kNClasses] = {};
};

std::string quoted(std::string_view name) { return "tensor '" + std::string(name) + "'"; }

// Throws Error if the tensor cannot become this type.
void check(const Tensor& tensor, Type type, const MixtureOptions& options) {
  if (tensor.type == static_cast<uint32_t>(type)) return;
  const std::string source = gguf::tensor_type_name(tensor.type);
  const quant::TypeRow* row = quant::find_type(tensor.type);
  if (row == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                quoted(tensor.name) + " has type " + source + ", which cannot be quantised");
  }
  if (!is_float(row->type) && !options.allow_requantize) {
    throw Error(ErrorCode::kUnsupported,
                quoted(tensor.name) + " is quantised already (" + source +
                    "); quantise from F16 or F32, or pass --allow-requantize and lose precision");
  }
  const std::string target(quant::row(type).name);
  if (!divides(type, tensor.shape[0])) {
    throw Error(ErrorCode::kUnsupported, quoted(tensor.name) + " has rows of " +
                                             std::to_string(tensor.shape[0]) + " elements, which " +
                                             target + " cannot hold");
  }
  const Class tensor_class = class_of(tensor.name);
  const bool looked_up = tensor_class == Class::kOutput || tensor_class == Class::kEmbedding;
  const bool needs = std::ranges::find(kNeedImportance, type) != std::end(kNeedImportance) ||
                     (options.file_type->base_needs_importance && type == options.file_type->base);
  if (!needs || looked_up) return;
  if (!options.has_importance) {
    throw Error(
        ErrorCode::kUnsupported,
        target + " needs an importance matrix (first for " + quoted(tensor.name) +
            "); make one with billow imatrix, and give it to billow quantize with --imatrix");
  }
  if (!options.has_importance(tensor.name)) {
    throw Error(ErrorCode::kUnsupported, "the importance matrix has no entry for " +
                                             quoted(tensor.name) + ", which " + target + " needs");
  }
}

void check_options(std::span<const Tensor> tensors, const MixtureOptions& options) {
  const FileType& file_type = *options.file_type;
  if (!options.patterns.empty() && is_float(file_type.base)) {
    throw Error(
        ErrorCode::kUnsupported,
        "types for name patterns need a quantised file type, not " + std::string(file_type.name));
  }
  const bool chooses =
      options.pure || options.output_type.has_value() || options.embedding_type.has_value();
  if (!file_type.number && chooses) {
    throw Error(ErrorCode::kUnsupported, "COPY changes no type, so no type can be chosen with it");
  }
  if (options.patterns.empty()) return;
  for (const Tensor& tensor : tensors) {
    if (tensor.name.size() <= kMaxNameForPatterns) continue;
    throw Error(ErrorCode::kUnsupported, "a tensor's name is too long to search patterns in");
  }
}

// Returns the number at `key`, or the first element of an array of numbers (one per block). Returns
// 0 for anything else.
uint64_t first_uint(const gguf::File& file, const std::string& key) {
  const gguf::Value* value = file.find(key);
  if (value == nullptr) return 0;
  const gguf::Array* array = gguf::as_array(*value);
  if (array == nullptr) return file.get_uint(key).value_or(0);
  const bool numbers = gguf::value_type_bytes(array->element_type) != 0;
  if (!numbers || array->n == 0) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(0, array->integer(0)));
}

}  // namespace

std::optional<quant::Type> find_target(std::string_view name) noexcept {
  const quant::TypeRow* row = quant::find_type(name);
  return row != nullptr && can_encode(row->type) ? std::optional(row->type) : std::nullopt;
}

ModelFacts facts_of(const gguf::File& file) {
  ModelFacts facts;
  facts.architecture = file.require_string("general.architecture");
  const std::string prefix = facts.architecture + ".";
  facts.n_blocks = file.get_uint(prefix + "block_count").value_or(0);
  facts.n_experts = file.get_uint(prefix + "expert_count").value_or(0);
  facts.n_heads = first_uint(file, prefix + "attention.head_count");
  const std::string kv_key = prefix + "attention.head_count_kv";
  facts.n_kv_heads = file.find(kv_key) != nullptr ? first_uint(file, kv_key) : facts.n_heads;
  return facts;
}

std::vector<Tensor> tensors_of(const gguf::File& file) {
  std::vector<Tensor> tensors;
  for (const gguf::TensorInfo& info : file.tensors()) {
    tensors.push_back({info.name, info.shape, info.type});
  }
  return tensors;
}

std::string_view text_of(Reason reason) noexcept {
  constexpr std::string_view kTexts[] = {"kept",      "asked for", "pattern",
                                         "base type", "mixture",   "width"};
  return kTexts[static_cast<size_t>(reason)];
}

std::vector<Decision> plan_mixture(const ModelFacts& facts, std::span<const Tensor> tensors,
                                   const MixtureOptions& options) {
  BILLOW_CHECK(options.file_type != nullptr);
  check_options(tensors, options);
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(
      order, {}, [&](size_t i) { return std::pair(block_of(tensors[i].name), tensors[i].name); });
  Chooser chooser(facts, tensors, options);
  const bool copies = !options.file_type->number.has_value();
  std::vector<Decision> decisions;
  for (const size_t i : order) {
    const Tensor& tensor = tensors[i];
    const bool left = options.leave_output && tensor.name == "output.weight";
    if (copies || left || !may_change(tensor, facts)) {
      decisions.push_back({i, tensor.type, Reason::kKept});
      continue;
    }
    const Chooser::Choice choice = chooser.choose(tensor);
    check(tensor, choice.type, options);
    decisions.push_back({i, static_cast<uint32_t>(choice.type), choice.reason});
  }
  return decisions;
}

}  // namespace billow::quantize
