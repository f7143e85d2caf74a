// The family and the sizes of an encoder, read from config.json. Plain data, thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/sources.h"

namespace billow::convert {

enum class Layout : uint8_t {
  kBert,
  kDistil,
  kNomic,
  kNomicExperts,
  kJina2,
  kJina3,
  kModern,
  kEuro,
  kNeo
};

// How the last layer's rows become one vector. The numbers are those of PREFIX.pooling_type.
enum class Pooling : uint32_t { kMean = 1, kCls = 2, kLast = 3, kRank = 4 };

enum class Head : uint8_t {
  kNone,
  kPooled,      // a "pooler" and a "classifier": BertForSequenceClassification
  kClassifier,  // a "classifier" of two matrices: RobertaForSequenceClassification
  kNormed       // a "head" with a norm, and a "classifier": ModernBertForSequenceClassification
};

// A class of Hugging Face's library that the converter supports.
struct Family {
  std::string_view name{};          // as in "architectures" of config.json
  std::string_view architecture{};  // general.architecture
  Layout layout = Layout::kBert;
  Head head = Head::kNone;
  // The position table begins with rows for padding, up to pad_token_id.
  bool pads_positions = false;
  std::string_view prefix = "";    // optional prefix of tensor names; GGUF omits it
  bool has_dense_modules = false;  // may have dense layers after the pooling
};

struct EncoderConfig {
  const Family* family = nullptr;
  uint32_t n_embd = 0;
  uint32_t n_layers = 0;
  uint32_t n_heads = 0;
  uint32_t n_feed_forward = 0;
  uint32_t n_positions = 0;         // rows of the position table; 0 if there is no table
  uint32_t n_padded_positions = 0;  // the first of these rows, which no text uses
  uint32_t n_context = 0;           // tokens that the model was trained for
  uint32_t n_token_types = 0;
  double norm_epsilon = 0;
  bool norms_by_root = false;  // root mean square norm, whose epsilon has another key
  std::optional<double> rope_base;
  std::optional<double> local_rope_base;  // of layers with a window
  bool scales_no_rope = false;            // rope.scaling.type "none"
  uint32_t n_kv_heads = 0;                // 0: equals n_heads, and no key is written
  uint32_t head_len = 0;                  // 0: n_embd / n_heads, and no key is written
  uint32_t window = 0;                    // positions that a token sees in most layers; 0: all
  uint32_t window_period = 0;             // one layer in each period sees all positions
  uint32_t n_experts = 0;                 // of the layers that have experts
  uint32_t n_used_experts = 0;            // for each token
  uint32_t experts_period = 0;            // the second layer of each period has experts
  std::string activation;                 // of the feed-forward part, if the file may choose it
  std::optional<Pooling> classifier_pooling;
  uint32_t n_words = 0;             // vocab_size of config.json, if GGUF has a key for it
  std::vector<std::string> labels;  // of the classes, in order; empty if config.json has none
};

// Reads and validates config.json. Throws Error that names the field for a model that cannot be
// converted. The error is kUnsupported if the model is valid but not supported.
EncoderConfig read_encoder_config(const Sources& sources);

// The pooling of a text's vectors, read from modules.json and the file that it names. If neither
// file names a pooling, the result is mean, which is Hugging Face's default, and `is_guess` is
// true. read_pooling() throws Error (kUnsupported) for a pooling that has no number in GGUF, and
// for modules after the pooling that change the vector.
struct PoolingChoice {
  Pooling pooling = Pooling::kMean;
  bool is_guess = false;
};
PoolingChoice read_pooling(const Sources& sources, const Family& family);
// Returns the folders of the dense layers after the pooling, in the order of modules.json.
std::vector<std::string> dense_folders(const Sources& sources);

// --- the parts of read_encoder_config, one per layout ---

[[noreturn]] void refuse_config(const std::string& what);  // throws kUnsupported
// These two throw Error if the field exists and differs from what the architecture allows.
void require_text(const DocumentFields& fields, const char* name,
                  std::initializer_list<std::string_view> allowed);
void require_flag(const DocumentFields& fields, const char* name, bool wanted);
void read_nomic_experts(const DocumentFields& fields, EncoderConfig& config);
void read_distil(const DocumentFields& fields, EncoderConfig& config);
void read_jina2(const DocumentFields& fields, EncoderConfig& config);
void read_jina3(const DocumentFields& fields, EncoderConfig& config);
void read_modern(const DocumentFields& fields, EncoderConfig& config);
void read_euro(const DocumentFields& fields, EncoderConfig& config);
void read_neo(const DocumentFields& fields, EncoderConfig& config);

}  // namespace billow::convert
