#include "convert/encoder_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "convert/language_family.h"

namespace billow::convert {
namespace {

constexpr std::string_view kFile = "config.json";
constexpr uint32_t kMaxLayers = 1024;
constexpr uint64_t kMaxLabels = 100'000;

constexpr std::array kFamilies{
    Family{"BertModel", "bert", Layout::kBert, Head::kNone, false},
    Family{"BertForMaskedLM", "bert", Layout::kBert, Head::kNone, false},
    Family{"BertForSequenceClassification", "bert", Layout::kBert, Head::kPooled, false},
    Family{"RobertaModel", "bert", Layout::kBert, Head::kNone, true},
    Family{"RobertaForSequenceClassification", "bert", Layout::kBert, Head::kClassifier, true},
    Family{"XLMRobertaModel", "bert", Layout::kBert, Head::kNone, true},
    Family{"XLMRobertaForSequenceClassification", "bert", Layout::kBert, Head::kClassifier, true},
    Family{"DistilBertModel", "bert", Layout::kDistil, Head::kNone, false, "distilbert."},
    Family{"DistilBertForMaskedLM", "bert", Layout::kDistil, Head::kNone, false, "distilbert."},
    Family{"NomicBertModel", "nomic-bert", Layout::kNomic, Head::kNone, false},
    Family{"JinaBertModel", "jina-bert-v2", Layout::kJina2, Head::kNone, false},
    Family{"JinaBertForMaskedLM", "jina-bert-v2", Layout::kJina2, Head::kNone, false},
    Family{"ModernBertModel", "modern-bert", Layout::kModern, Head::kNone, false, "model."},
    Family{"ModernBertForMaskedLM", "modern-bert", Layout::kModern, Head::kNone, false, "model."},
    Family{"ModernBertForSequenceClassification", "modern-bert", Layout::kModern, Head::kNormed,
           false, "model."},
    Family{"EuroBertModel", "eurobert", Layout::kEuro, Head::kNone, false, "model."},
    Family{"EuroBertForMaskedLM", "eurobert", Layout::kEuro, Head::kNone, false, "model."},
    Family{"JinaEmbeddingsV5Model", "eurobert", Layout::kEuro, Head::kNone, false, "model."},
    Family{"NeoBERT", "neo-bert", Layout::kNeo, Head::kNone, false, "model."},
    Family{"NeoBERTLMHead", "neo-bert", Layout::kNeo, Head::kNone, false, "model."},
};
// Files with "moe_every_n_layers" are nomic-embed-text 2. Files with "lora_adaptations" are
// jina-embeddings-v3.
constexpr Family kNomicExperts{"NomicBertModel", "nomic-bert-moe", Layout::kNomicExperts,
                               Head::kNone, false};
constexpr Family kJina3{"XLMRobertaModel", "jina-bert-v3", Layout::kJina3, Head::kNone, false};

const Family& family_of(const DocumentFields& fields) {
  const Document* names = fields.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    fields.refuse("architectures", "must name the model's class");
  }
  const auto name = names->front().get<std::string>();
  if (name == kJina3.name && fields.find("lora_adaptations") != nullptr) return kJina3;
  if (name == kNomicExperts.name && fields.count("moe_every_n_layers").value_or(0) != 0)
    return kNomicExperts;
  const auto* known = std::ranges::find(kFamilies, name, &Family::name);
  if (known != kFamilies.end()) return *known;
  std::string all;
  for (const Family& family : kFamilies) {
    all += (all.empty() ? "" : ", ") + std::string(family.name);
  }
  std::string nearest;
  for (const std::string_view known_class : nearest_classes(name)) {
    nearest += (nearest.empty() ? "" : ", ") + std::string(known_class);
  }
  refuse_config("models of the class '" + name +
                "' cannot be converted (the nearest language models: " + nearest +
                "; encoders: " + all + "); give a GGUF file");
}

void read_bert(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "hidden_act", {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"});
  require_text(fields, "position_embedding_type", {"absolute"});
  require_flag(fields, "is_decoder", false);
  config.n_positions = fields.require_size({"max_position_embeddings"});
  if (config.family->pads_positions) {
    const uint64_t pad = fields.count("pad_token_id").value_or(1);
    if (pad + 1 >= config.n_positions) {
      fields.refuse("pad_token_id", "leaves no positions for a text");
    }
    config.n_padded_positions = static_cast<uint32_t>(pad) + 1;
  }
  config.n_context = config.n_positions - config.n_padded_positions;
  config.n_token_types =
      fields.find("type_vocab_size") == nullptr ? 1 : fields.require_size({"type_vocab_size"});
}

void read_nomic(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "activation_function", {"swiglu"});
  for (const char* name : {"prenorm", "causal", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias",
                           "rotary_emb_interleaved", "parallel_block", "use_rms_norm"}) {
    require_flag(fields, name, false);
  }
  if (fields.number("rotary_emb_fraction").value_or(1.0) != 1.0) {
    refuse_config("\"rotary_emb_fraction\" must be 1");
  }
  if (fields.find("rotary_emb_scale_base") != nullptr) {
    refuse_config("\"rotary_emb_scale_base\" must be null");
  }
  config.rope_base = fields.number("rotary_emb_base").value_or(10000.0);
  // n_positions may include an extended context beyond the trained positions.
  const uint64_t trained = fields.count("max_trained_positions").value_or(2048);
  const uint32_t n_positions = fields.require_size({"n_positions", "max_position_embeddings"});
  config.n_context = static_cast<uint32_t>(std::min<uint64_t>(n_positions, trained));
  if (config.n_context == 0) fields.refuse("max_trained_positions", "must not be 0");
  if (fields.count("type_vocab_size").value_or(1) != 0)
    config.n_token_types =
        fields.find("type_vocab_size") == nullptr ? 1 : fields.require_size({"type_vocab_size"});
}

// Reads id2label, {"0": name, ...}. Returns the names in the order of their numbers.
std::vector<std::string> labels_of(const DocumentFields& fields) {
  const Document* map = fields.find("id2label");
  if (map == nullptr) return {};
  if (!map->is_object() || map->size() > kMaxLabels) fields.refuse("id2label", "must be an object");
  std::vector<std::string> labels;
  for (size_t i = 0; i < map->size(); ++i) {
    const auto at = map->find(std::to_string(i));
    if (at == map->end() || !at->is_string()) {
      fields.refuse("id2label", "must name each class by its number");
    }
    labels.push_back(at->get<std::string>());
  }
  return labels;
}

Pooling pooling_of(const DocumentFields& fields) {
  struct Mode {
    std::string_view flag;  // older files have one flag per mode
    std::string_view name;  // newer files have a name
    std::optional<Pooling> pooling;
  };
  static constexpr Mode kModes[] = {
      {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
      {"pooling_mode_cls_token", "cls", Pooling::kCls},
      {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
      {"pooling_mode_max_tokens", "max", {}},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {}},
      {"pooling_mode_weightedmean_tokens", "weightedmean", {}}};
  std::vector<const Mode*> chosen;
  for (const Mode& mode : kModes) {
    if (fields.flag(mode.flag).value_or(false)) chosen.push_back(&mode);
  }
  const auto name = fields.text("pooling_mode");
  for (const Mode& mode : kModes) {
    if (chosen.empty() && name == mode.name) chosen.push_back(&mode);
  }
  if (chosen.size() == 1 && chosen[0]->pooling) return *chosen[0]->pooling;
  const std::string what = chosen.size() > 1 ? "more than one way"
                           : chosen.empty()  ? name.value_or("an unknown way")
                                             : std::string(chosen[0]->name);
  throw Error(ErrorCode::kUnsupported,
              fields.origin() + ": pooling by " + what +
                  " is not supported (known: mean, cls, lasttoken; one of them)");
}

struct Module {
  std::string kind;    // "Pooling"
  std::string folder;  // folder with its description
};

// Returns an empty list if there is no modules.json.
std::vector<Module> modules_of(const Sources& sources) {
  constexpr std::string_view kModules = "modules.json";
  const auto list = sources.document(kModules);
  if (!list) return {};
  if (!list->is_array()) {
    throw Error(ErrorCode::kInvalidInput, std::string(kModules) + ": not a JSON array");
  }
  std::vector<Module> modules;
  for (const Document& module : *list) {
    const DocumentFields fields(module, std::string(kModules));
    const std::string type = fields.text("type").value_or("");
    modules.push_back({type.substr(type.rfind('.') + 1), fields.text("path").value_or("")});
  }
  return modules;
}

// Returns the folder of the pooling's description.
std::optional<std::string> pooling_folder(const Sources& sources, const Family& family) {
  std::optional<std::string> folder;
  for (const Module& module : modules_of(sources)) {
    const bool is_known = module.kind == "Transformer" || module.kind == "Normalize" ||
                          (module.kind == "Dense" && family.has_dense_modules);
    if (module.kind == "Pooling") {
      folder = module.folder;
    } else if (!is_known) {
      throw Error(ErrorCode::kUnsupported,
                  "modules.json: a module '" + module.kind + "' is not supported");
    }
  }
  return folder;
}

struct Reader {
  Layout layout;
  void (*read)(const DocumentFields& fields, EncoderConfig& config);
};
constexpr Reader kReaders[] = {
    {Layout::kBert, read_bert},     {Layout::kDistil, read_distil},
    {Layout::kNomic, read_nomic},   {Layout::kNomicExperts, read_nomic_experts},
    {Layout::kJina2, read_jina2},   {Layout::kJina3, read_jina3},
    {Layout::kModern, read_modern}, {Layout::kEuro, read_euro},
    {Layout::kNeo, read_neo}};

}  // namespace

void refuse_config(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, std::string(kFile) + ": " + what);
}

void require_text(const DocumentFields& fields, const char* name,
                  std::initializer_list<std::string_view> allowed) {
  const auto value = fields.text(name);
  if (!value || std::ranges::find(allowed, *value) != allowed.end()) return;
  refuse_config("\"" + std::string(name) + "\": '" + *value + "' is not supported");
}

void require_flag(const DocumentFields& fields, const char* name, bool wanted) {
  if (fields.flag(name).value_or(wanted) == wanted) return;
  refuse_config("\"" + std::string(name) + "\" must be " + (wanted ? "true" : "false"));
}

EncoderConfig read_encoder_config(const Sources& sources) {
  const auto document = sources.document(kFile);
  if (!document) {
    throw Error(ErrorCode::kInvalidInput, "config.json is missing; send it with the weights");
  }
  const DocumentFields fields(*document, std::string(kFile));
  EncoderConfig config;
  config.family = &family_of(fields);
  config.n_embd = fields.require_size({"hidden_size", "n_embd", "dim"});
  config.n_layers = fields.require_size({"num_hidden_layers", "n_layer", "n_layers"});
  config.n_heads = fields.require_size({"num_attention_heads", "n_head", "n_heads"});
  config.n_feed_forward = fields.require_size({"intermediate_size", "n_inner", "hidden_dim"});
  config.norm_epsilon =
      fields.number("layer_norm_eps").value_or(fields.number("layer_norm_epsilon").value_or(1e-12));
  if (config.n_layers > kMaxLayers) fields.refuse("num_hidden_layers", "is more than 1024");
  if (config.n_embd % config.n_heads != 0) {
    fields.refuse("num_attention_heads",
                  "does not divide the width of " + std::to_string(config.n_embd));
  }
  if (!(config.norm_epsilon > 0 && config.norm_epsilon < 1)) {
    fields.refuse("layer_norm_eps", "must be between 0 and 1");
  }
  const auto* reader = std::ranges::find(kReaders, config.family->layout, &Reader::layout);
  reader->read(fields, config);
  if (config.family->head != Head::kNone) config.labels = labels_of(fields);
  return config;
}

std::vector<std::string> dense_folders(const Sources& sources) {
  std::vector<std::string> folders;
  for (const Module& module : modules_of(sources))
    if (module.kind == "Dense") folders.push_back(module.folder);
  return folders;
}

PoolingChoice read_pooling(const Sources& sources, const Family& family) {
  if (family.head != Head::kNone) return {Pooling::kRank, false};
  const std::string folder = pooling_folder(sources, family).value_or("1_Pooling");
  const std::string name = folder.empty() ? folder : folder + "/config.json";
  const auto document = name.empty() ? std::nullopt : sources.document(name);
  if (document) return {pooling_of(DocumentFields(*document, name)), false};
  if (sources.find("modules.json") != nullptr && pooling_folder(sources, family)) {
    throw Error(ErrorCode::kInvalidInput,
                name + " is missing, but modules.json names it; send it with the weights");
  }
  if (family.layout == Layout::kNeo) return {Pooling::kCls, false};  // the authors' usage
  return {Pooling::kMean, true};
}

}  // namespace billow::convert
